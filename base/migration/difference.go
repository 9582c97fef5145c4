// Copyright The Tripod Authors.
// SPDX-License-Identifier: Apache-2.0

package migration

import (
	"maps"
	"reflect"
	"slices"
	"strconv"
)

// Difference is a field that another API server would not return as it is.
type Difference struct {
	// Field is the path, such as spec.author or spec.containers[0].image.
	Field string
	// What says what would happen to it, such as "would be lost".
	What string
}

func (d *Difference) String() string { return d.Field + " " + d.What }

const (
	lost    = "would be lost"
	changed = "would change"
	added   = "would be added"
)

// FirstDifference returns the first field that differs between an object and what another API server would return in its place, or nil.
// Both are as k8s.io/apimachinery decodes JSON. metadata.resourceVersion may differ: it is the server's. A field that is null is none, and
// neither is an empty object that the server adds: Go writes structs without values so.
func FirstDifference(object, returned map[string]any) *Difference {
	return differ("", withoutVersion(object), withoutVersion(returned))
}

// withoutVersion returns a copy of an object without the resourceVersion.
func withoutVersion(object map[string]any) map[string]any {
	metadata, ok := object["metadata"].(map[string]any)
	if !ok {
		return object
	}
	object, metadata = maps.Clone(object), maps.Clone(metadata)
	delete(metadata, "resourceVersion")
	object["metadata"] = metadata
	return object
}

func differ(field string, a, b any) *Difference {
	switch was := a.(type) {
	case map[string]any:
		is, ok := b.(map[string]any)
		if !ok {
			return &Difference{field, changed}
		}
		return differFields(field, was, is)
	case []any:
		is, ok := b.([]any)
		if !ok || len(is) != len(was) {
			return &Difference{field, changed}
		}
		for i := range was {
			if found := differ(field+"["+strconv.Itoa(i)+"]", was[i], is[i]); found != nil {
				return found
			}
		}
		return nil
	}
	if !equal(a, b) {
		return &Difference{field, changed}
	}
	return nil
}

func differFields(field string, was, is map[string]any) *Difference {
	names := slices.Collect(maps.Keys(was))
	for name := range is {
		if _, both := was[name]; !both {
			names = append(names, name)
		}
	}
	slices.Sort(names)
	for _, name := range names {
		path := name
		if field != "" {
			path = field + "." + name
		}
		before, after := was[name], is[name]
		switch {
		case before == nil && isEmpty(after):
		case before == nil:
			return &Difference{path, added}
		case after == nil:
			return &Difference{path, lost}
		default:
			if found := differ(path, before, after); found != nil {
				return found
			}
		}
	}
	return nil
}

// isEmpty reports whether a value has no fields, and neither have those in it.
func isEmpty(value any) bool {
	if value == nil {
		return true
	}
	object, ok := value.(map[string]any)
	if !ok {
		return false
	}
	for _, each := range object {
		if !isEmpty(each) {
			return false
		}
	}
	return true
}

// equal compares values that are neither objects nor lists. 1 and 1.0 are one number.
func equal(a, b any) bool {
	whole, ok := a.(int64)
	part, other := b.(float64)
	if ok && other {
		return float64(whole) == part && int64(part) == whole
	}
	whole, ok = b.(int64)
	part, other = a.(float64)
	if ok && other {
		return float64(whole) == part && int64(part) == whole
	}
	return reflect.DeepEqual(a, b)
}

// Canonical returns an object in the form in which servers that return the same return it: without the resourceVersion, without what is
// null, and without empty objects, which Go adds.
func Canonical(object map[string]any) map[string]any {
	canonical, _ := canonicalOf(withoutVersion(object)).(map[string]any)
	return canonical
}

func canonicalOf(value any) any {
	switch is := value.(type) {
	case map[string]any:
		fields := make(map[string]any, len(is))
		for name, each := range is {
			if !isEmpty(each) {
				fields[name] = canonicalOf(each)
			}
		}
		return fields
	case []any:
		items := make([]any, len(is))
		for i, each := range is {
			items[i] = canonicalOf(each)
		}
		return items
	case float64:
		if whole := int64(is); float64(whole) == is {
			return whole
		}
	}
	return value
}
