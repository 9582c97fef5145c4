// Copyright The Tripod Authors.
// SPDX-License-Identifier: Apache-2.0

package relations

import (
	"cmp"
	"slices"
	"strings"

	"github.com/go-json-experiment/json/jsontext"

	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/tripod-k8s/tripod/services/search/apis/search/v1beta1"
	"github.com/tripod-k8s/tripod/services/search/query"
)

const (
	// MaxReferences bounds the references of an object, and maxRead how many values are read to find them.
	MaxReferences, maxRead = 256, 10_000
	// maxReference bounds the text of a reference, and maxName a name.
	maxReference, maxName = 4 << 10, 253
)

// Target is an object that another one points at. Either Resource or Kind is set.
type Target struct {
	Resource schema.GroupResource
	Kind     schema.GroupKind
	// Namespace counts if the kind is in namespaces.
	Namespace, Name string
}

// Reference is what an object says of another one.
type Reference struct {
	Type v1beta1.RelationType
	Target
	// Fields are those that say so.
	Fields []string
}

// References returns what an object of a resource points at by name, each of them once, and whether these are all: the text of the object
// may have too many. types limits the types, unless it is nil.
func References(resource schema.GroupResource, namespace string, object []byte,
	types []v1beta1.RelationType) (all []Reference, complete bool) {
	return references(rules[resource], namespace, object, func(r *rule) bool { return types == nil || slices.Contains(types, r.relation) })
}

// ReferencesTo returns the types of references of an object to another one, with their fields.
func ReferencesTo(resource schema.GroupResource, namespace string, object []byte, to Subject) (all []Reference, complete bool) {
	all, complete = references(rules[resource], namespace, object, func(r *rule) bool { return r.mayMean(to.Resource, to.Kind) })
	return slices.DeleteFunc(all, func(r Reference) bool { return !to.is(r.Target) }), complete
}

// Subject is an object that others may point at.
type Subject struct {
	Resource        schema.GroupResource
	Kind            schema.GroupKind
	Namespace, Name string
}

func (s Subject) is(t Target) bool {
	return (t.Resource == s.Resource || t.Resource.Resource == "" && t.Kind == s.Kind) && t.Name == s.Name &&
		(s.Namespace == "" || t.Namespace == s.Namespace)
}

// references reads references by some rules. It stops at its bounds.
func references(rules []rule, namespace string, object []byte, wanted func(*rule) bool) ([]Reference, bool) {
	type key struct {
		v1beta1.RelationType
		Target
	}
	found := map[key][]string{}
	read, complete := 0, true
	for i := range rules {
		r := &rules[i]
		if !wanted(r) {
			continue
		}
		for value := range query.ValuesAt(r.path, object) {
			target, ok := r.read(value, namespace)
			of := key{r.relation, target}
			_, known := found[of]
			if read++; read > maxRead || ok && !known && len(found) == MaxReferences {
				complete = false
				break
			}
			if ok && !slices.Contains(found[of], r.field()) {
				found[of] = append(found[of], r.field())
			}
		}
	}
	var all []Reference
	for of, fields := range found {
		all = append(all, Reference{Type: of.RelationType, Target: of.Target, Fields: slices.Sorted(slices.Values(fields))})
	}
	slices.SortFunc(all, func(a, b Reference) int {
		return cmp.Or(strings.Compare(string(a.Type), string(b.Type)), strings.Compare(a.Resource.String(), b.Resource.String()),
			strings.Compare(a.Kind.String(), b.Kind.String()), strings.Compare(a.Namespace, b.Namespace), strings.Compare(a.Name, b.Name))
	})
	return all, complete
}

// read reads a reference.
func (r *rule) read(value jsontext.Value, namespace string) (target Target, ok bool) {
	target = Target{Resource: r.to, Namespace: namespace}
	if r.name == "" {
		target.Name, ok = textAt(nil, value)
		return target, ok
	}
	if value.Kind() != jsontext.KindBeginObject || len(value) > maxReference {
		return target, false
	}
	field := func(name string) (text string) {
		text, _ = textAt([]query.Step{{Name: name}}, value)
		return text
	}
	if target.Name = field(r.name); target.Name == "" {
		return target, false
	}
	if r.elsewhere {
		target.Namespace = cmp.Or(field("namespace"), namespace)
	}
	if r.to.Resource != "" {
		return target, true
	}
	if len(r.kinds) > 0 {
		target.Kind = r.kinds[0]
	}
	if r.group != "" {
		if text, has := textAt([]query.Step{{Name: r.group}}, value); has {
			target.Kind.Group = text
			if r.group == "apiVersion" {
				target.Kind.Group = groupOf(text)
			}
		}
	}
	target.Kind.Kind = cmp.Or(field("kind"), target.Kind.Kind)
	return target, target.Kind.Kind != "" && (len(r.kinds) == 0 || slices.Contains(r.kinds, target.Kind))
}

// groupOf returns the group of an apiVersion.
func groupOf(apiVersion string) string {
	group, _, found := strings.Cut(apiVersion, "/")
	if !found {
		return ""
	}
	return group
}

// textAt returns a text that may be the name of something.
func textAt(path []query.Step, value jsontext.Value) (text string, ok bool) {
	for found := range query.ValuesAt(path, value) {
		if found.Kind() != jsontext.KindString || len(found) > maxName+len(`""`) {
			return "", false
		}
		unquoted, err := jsontext.AppendUnquote(nil, found)
		return string(unquoted), err == nil && len(unquoted) > 0
	}
	return "", false
}

// Pointer is where objects of a resource may have the name of another object.
type Pointer struct {
	From schema.GroupResource
	// Names are the paths of fields, one of which has the name.
	Names [][]query.Step
	// SameNamespace is set if the objects are in the namespace of the other object, should that be in one.
	SameNamespace bool
}

// Pointers returns what may point at an object by name, in the order of resources. types limits the types, unless it is nil.
func Pointers(to Subject, types []v1beta1.RelationType) (all []Pointer) {
	for from, of := range rules {
		p := Pointer{From: from, SameNamespace: true}
		for i := range of {
			r := &of[i]
			if r.mayMean(to.Resource, to.Kind) && (types == nil || slices.Contains(types, r.relation)) {
				p.Names, p.SameNamespace = append(p.Names, r.namePath), p.SameNamespace && !r.elsewhere
			}
		}
		if len(p.Names) > 0 {
			all = append(all, p)
		}
	}
	slices.SortFunc(all, func(a, b Pointer) int { return strings.Compare(a.From.String(), b.From.String()) })
	return all
}
