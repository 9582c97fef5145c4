// Copyright The Tripod Authors.
// SPDX-License-Identifier: Apache-2.0

package query

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"time"
	"unicode/utf8"

	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/runtime/schema"
)

// Subject is a state of an object, of which a query is to say whether it asks for it. It is decoded once, and only as far as queries look at it.
type Subject struct {
	Cluster, Namespace, Name string
	// JSON is the whole object.
	JSON []byte

	metadataOnce, contentOnce sync.Once
	metadata                  metadata
	content                   any
}

type metadata struct {
	Labels            map[string]string `json:"labels"`
	CreationTimestamp time.Time         `json:"creationTimestamp"`
	OwnerReferences   []struct {
		UID string `json:"uid"`
	} `json:"ownerReferences"`
}

// meta returns the metadata of the object.
func (s *Subject) meta() *metadata {
	s.metadataOnce.Do(func() {
		object := struct {
			Metadata *metadata `json:"metadata"`
		}{&s.metadata}
		json.Unmarshal(s.JSON, &object) //nolint:errcheck // the database has valid JSON only
	})
	return &s.metadata
}

// whole returns the object. Numbers are as they are written.
func (s *Subject) whole() any {
	s.contentOnce.Do(func() {
		decoder := json.NewDecoder(bytes.NewReader(s.JSON))
		decoder.UseNumber()
		decoder.Decode(&s.content) //nolint:errcheck // the database has valid JSON only
	})
	return s.content
}

// kind returns what the object says it is, which is what its stream has: search writes it.
func (s *Subject) kind() schema.GroupKind {
	content, _ := s.whole().(map[string]any)
	apiVersion, _ := content["apiVersion"].(string)
	kind, _ := content["kind"].(string)
	return schema.FromAPIVersionAndKind(apiVersion, kind).GroupKind()
}

// CheckMatch returns why Matches cannot say whether an object is asked for, or nil. Such a query needs to see other objects.
func (q *Query) CheckMatch() error {
	switch {
	case q.Owner != nil && (q.Owner.UID == "" || q.Owner.Seniority > 0):
		return errors.New("owners can be given by UID only (ownerUID), and without ownerSeniority")
	case len(q.Order) > 0:
		return errors.New("orderby is not possible")
	case q.At != nil || q.DiffersFrom != nil:
		return errors.New("at and differsFrom are not possible: a watch begins at a resourceVersion")
	case q.Offset > 0 || q.After != nil:
		return errors.New("continue and offset are not possible")
	case q.WithContinue:
		return errors.New("withContinue is not possible")
	case q.InjectEvents:
		return errors.New("injectEvents is not possible")
	case q.WithStaleness:
		return errors.New("withStaleness is not possible: lists have it, and watches have maxStaleness")
	}
	return nil
}

// Matches reports whether a query asks for an object. It decides as the database does. Parts of the query that CheckMatch refuses do not count.
func (q *Query) Matches(s *Subject) bool {
	if !q.Clusters.Has(s.Cluster) || !q.Namespaces.Has(s.Namespace) || !q.Names.Has(s.Name) {
		return false
	}
	if slices.ContainsFunc(q.Fuzzy, func(part string) bool { return !strings.Contains(s.Name, part) }) {
		return false
	}
	if len(q.Labels) > 0 {
		set := labels.Set(s.meta().Labels)
		if slices.ContainsFunc(q.Labels, func(r labels.Requirement) bool { return !r.Matches(set) }) {
			return false
		}
	}
	if !q.Since.IsZero() && s.meta().CreationTimestamp.Before(q.Since) || !q.Before.IsZero() && !s.meta().CreationTimestamp.Before(q.Before) {
		return false
	}
	if q.Owner != nil && q.Owner.UID != "" && q.Owner.Seniority == 0 && !slices.Contains(s.Owners(), q.Owner.UID) {
		return false
	}
	return !slices.ContainsFunc(q.Fields, func(f Field) bool { return !f.matches(s.kind(), s.whole()) })
}

// Owners returns the UIDs of the owners of the object.
func (s *Subject) Owners() (uids []string) {
	for _, owner := range s.meta().OwnerReferences {
		uids = append(uids, owner.UID)
	}
	return uids
}

// Has reports whether a choice includes a value.
func (c Choice) Has(value string) bool {
	return (len(c.In) == 0 || slices.Contains(c.In, value)) && !slices.Contains(c.NotIn, value) && (!c.Exists || value != "") && (!c.Missing || value == "")
}

// matches judges a field of an object.
func (f Field) matches(kind schema.GroupKind, content any) bool {
	one := slices.ContainsFunc(f.Alternatives(kind), func(all []Condition) bool {
		return !slices.ContainsFunc(all, func(c Condition) bool { return !c.holds(content) })
	})
	return one != f.Negative()
}

// holds judges a condition as fields.Selector does, for which a field that is not there is "".
func (c Condition) holds(content any) bool {
	values := valuesAt(c.Path, content)
	if len(values) == 0 && !c.Every() {
		values = []any{nil}
	}
	return slices.ContainsFunc(values, func(v any) bool {
		if c.Exists {
			return v != nil
		}
		text, scalar := textOf(v)
		return scalar && slices.ContainsFunc(c.Values, func(value string) bool { return Speakable(value) == text })
	})
}

func valuesAt(path []Step, value any) []any {
	if len(path) == 0 {
		return []any{value}
	}
	if !path[0].List() {
		content, _ := value.(map[string]any)
		if next, ok := content[path[0].Name]; ok {
			return valuesAt(path[1:], next)
		}
		return nil
	}
	list, _ := value.([]any)
	if i := path[0].Index; i >= 0 {
		if i < len(list) {
			return valuesAt(path[1:], list[i])
		}
		return nil
	}
	var values []any
	for _, element := range list {
		values = append(values, valuesAt(path[1:], element)...)
	}
	return values
}

const (
	// unspeakable stands for what a text in a database cannot have.
	unspeakable = "\uFFFD"
	// Container is the text of objects and lists in statements, which no field has.
	Container = "\x01"
)

// speakable replaces NUL, which not every database can store, and Container.
var speakable = strings.NewReplacer("\x00", unspeakable, Container, unspeakable)

// Speakable returns a text as each database can store it: U+FFFD stands for NUL, for U+0001, and for what is not UTF-8. The values of fields are compared in
// this form.
func Speakable(text string) string {
	if !strings.ContainsAny(text, "\x00"+Container) && utf8.ValidString(text) {
		return text
	}
	return strings.ToValidUTF8(speakable.Replace(text), unspeakable)
}

// textOf returns the text of a scalar. Objects and lists equal nothing.
func textOf(value any) (text string, scalar bool) {
	switch v := value.(type) {
	case nil:
		return "", true
	case map[string]any, []any:
		return "", false
	default:
		return Speakable(fmt.Sprint(v)), true
	}
}
