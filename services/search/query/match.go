// Copyright The Tripod Authors.
// SPDX-License-Identifier: Apache-2.0

package query

import (
	"bytes"
	"errors"
	"iter"
	"slices"
	"strings"
	"sync"
	"time"
	"unicode/utf8"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"

	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/runtime/schema"
)

// Subject is a state of an object, of which a query is to say whether it asks for it. Of its metadata, it keeps decoded what queries look
// at. It never decodes the rest: an object may take 50 times as much memory then, and watches keep subjects.
type Subject struct {
	Cluster, Namespace, Name string
	// JSON is the whole object.
	JSON []byte

	metadataOnce sync.Once
	metadata     metadata
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
		json.Unmarshal(s.JSON, &object, asStored) //nolint:errcheck // the database has valid JSON only
	})
	return &s.metadata
}

// kind returns what the object says it is, which is what its stream has: search writes it.
func (s *Subject) kind() schema.GroupKind {
	return schema.FromAPIVersionAndKind(s.text("apiVersion"), s.text("kind")).GroupKind()
}

// text returns a field of the object that is a text.
func (s *Subject) text(field string) (text string) {
	for value := range ValuesAt([]Step{{Name: field}}, s.JSON) {
		text, _ = textOf(value)
	}
	return text
}

// CheckMatch returns why Matches cannot say whether an object is asked for, or nil. Such a query needs to see other objects.
func (q *Query) CheckMatch() error {
	switch {
	case q.Owner != nil && (q.Owner.UID == "" || q.Owner.Seniority > 0):
		return errors.New("owners can be given by UID only (ownerUID), and without ownerSeniority")
	case len(q.GroupBy) > 0:
		return errors.New("groupBy is not possible")
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

// Matches reports whether a query asks for an object. It decides as the database does. Parts of the query that CheckMatch refuses do not
// count. A Matcher is faster for several objects.
func (q *Query) Matches(s *Subject) bool { return NewMatcher(q).Matches(s) }

// Matcher says which objects a query asks for. It is for one goroutine.
type Matcher struct {
	q *Query
	// kind is that of the last object, and plan how the fields of such objects are judged.
	kind schema.GroupKind
	plan *plan
}

// NewMatcher returns the matcher of a query.
func NewMatcher(q *Query) *Matcher { return &Matcher{q: q} }

// Matches reports whether the query asks for an object.
func (m *Matcher) Matches(s *Subject) bool {
	q := m.q
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
	if !q.hasWords(s) {
		return false
	}
	if len(q.Fields) == 0 {
		return true
	}
	if kind := s.kind(); m.plan == nil || m.kind != kind {
		m.kind, m.plan = kind, newPlan(q.Fields, kind)
	}
	return m.plan.holds(s.JSON)
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
	return (len(c.In) == 0 || slices.Contains(c.In, value)) && !slices.Contains(c.NotIn, value) && (!c.Exists || value != "") &&
		(!c.Missing || value == "")
}

// null is the value of a field that is not there.
var null = jsontext.Value("null")

// holdsFor judges a value of a field. The values of the condition are speakable.
func (c Condition) holdsFor(value jsontext.Value) bool {
	if c.Exists {
		return value.Kind() != null.Kind()
	}
	text, scalar := textOf(value)
	if c.Bound != nil {
		return scalar && c.Bound.holds(text)
	}
	if c.IgnoreCase {
		text = Lowered(text)
	}
	return scalar && slices.ContainsFunc(c.Values, func(value string) bool {
		switch c.Text {
		case Contains:
			return strings.Contains(text, value)
		case StartsWith:
			return strings.HasPrefix(text, value)
		}
		return text == value
	})
}

// ValuesAt yields the values at a path, as they are written. It reads the text and takes no memory for what it passes.
func ValuesAt(path []Step, text jsontext.Value) iter.Seq[jsontext.Value] {
	return func(yield func(jsontext.Value) bool) { visitAt(path, text, yield) }
}

// visitAt returns false if yield has.
func visitAt(path []Step, text jsontext.Value, yield func(jsontext.Value) bool) bool {
	if len(path) == 0 {
		return yield(text)
	}
	step, decoder := path[0], jsontext.NewDecoder(bytes.NewBuffer(text), asStored)
	begins := jsontext.KindBeginObject
	if step.List() {
		begins = jsontext.KindBeginArray
	}
	if decoder.PeekKind() != begins {
		return true
	}
	_, err := decoder.ReadToken()
	for i := 0; err == nil && decoder.PeekKind() != jsontext.KindEndObject && decoder.PeekKind() != jsontext.KindEndArray; i++ {
		wanted, last := step.Index < 0 || step.Index == i, step.Index == i
		if !step.List() {
			var name jsontext.Token
			if name, err = decoder.ReadToken(); err != nil {
				break
			}
			wanted = name.String() == step.Name
			last = wanted
		}
		if !wanted {
			err = decoder.SkipValue()
			continue
		}
		var value jsontext.Value
		if value, err = decoder.ReadValue(); err != nil {
			break
		}
		end := decoder.InputOffset()
		if !visitAt(path[1:], text[end-int64(len(value)):end], yield) {
			return false
		}
		if last {
			break
		}
	}
	return true // the database has valid JSON only
}

// asStored reads what was checked before it was stored.
var asStored = json.JoinOptions(jsontext.AllowDuplicateNames(true), jsontext.AllowInvalidUTF8(true))

const (
	// unspeakable stands for what a text in a database cannot have.
	unspeakable = "\uFFFD"
	// Container is the text of objects and lists in statements, which no field has.
	Container = "\x01"
)

// speakable replaces NUL, which not every database can store, and Container.
var speakable = strings.NewReplacer("\x00", unspeakable, Container, unspeakable)

// Speakable returns a text as each database can store it: U+FFFD stands for NUL, for U+0001, and for what is not UTF-8. The values of
// fields are compared in this form.
func Speakable(text string) string {
	if !strings.ContainsAny(text, "\x00"+Container) && utf8.ValidString(text) {
		return text
	}
	return strings.ToValidUTF8(speakable.Replace(text), unspeakable)
}

// textOf returns the text of a scalar. Objects and lists equal nothing.
func textOf(value jsontext.Value) (text string, scalar bool) {
	switch value.Kind() {
	case jsontext.KindNull:
		return "", true
	case jsontext.KindBeginObject, jsontext.KindBeginArray:
		return "", false
	case jsontext.KindString:
		unquoted, _ := jsontext.AppendUnquote(nil, value) // invalid UTF-8 becomes U+FFFD
		return Speakable(string(unquoted)), true
	}
	return string(value), true
}
