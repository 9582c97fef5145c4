// Copyright The Tripod Authors.
// SPDX-License-Identifier: Apache-2.0

package query

import (
	"net/url"
	"slices"
	"strings"
)

// Of returns the query that a person would write for parameters of the collection "any" of search. It returns false if the box cannot say
// the same.
func Of(values url.Values) (q Query, can bool) {
	for name := range values {
		value := values.Get(name)
		if value == "" || slices.Contains(ofPages, name) || name == "resources" && values.Get("groups") == everyGroup {
			continue
		}
		read := readers[name]
		if read == nil {
			return Query{}, false
		}
		parts, can := read(value)
		if !can {
			return Query{}, false
		}
		q.Parts = append(q.Parts, parts...)
	}
	slices.SortStableFunc(q.Parts, func(a, b Part) int { return strings.Compare(a.Key, b.Key) })
	again, err := Parse(q.String())
	return q, err == nil && slices.Equal(again.Parts, q.Parts)
}

// ofPages are parameters that say how many objects a page has. The console has pages of its own.
var ofPages = []string{"limit", "withContinue", "withRemainingCount", "withStaleness", "onlyMetadata"}

const everyGroup = "*"

// readers return the parts of a parameter, or false if there are none that mean the same.
var readers = map[string]func(string) ([]Part, bool){
	"groups":     func(value string) ([]Part, bool) { return nil, value == everyGroup },
	"resources":  kindsOf,
	"clusters":   list("cluster"),
	"namespaces": list("namespace"),
	"names":      list("name"),
	"words": func(value string) (parts []Part, can bool) {
		for _, word := range strings.Fields(value) {
			parts = append(parts, Part{"", word})
		}
		return parts, true
	},
	"labelSelector": one("label"),
	"fieldSelector": one("field"),
	"ownerUID":      one("owner"),
	"at":            one("at"),
	"groupBy":       list("count"),
	"orderby":       ordersOf,
}

func one(key string) func(string) ([]Part, bool) {
	return func(value string) ([]Part, bool) { return []Part{{key, value}}, true }
}

// list reads values with commas between them. Paths may have commas in brackets and quotes, which the box cannot distinguish from others.
func list(key string) func(string) ([]Part, bool) {
	return func(value string) (parts []Part, can bool) {
		for item := range strings.SplitSeq(value, ",") {
			parts = append(parts, Part{key, strings.TrimSpace(item)})
		}
		return parts, !strings.ContainsAny(value, "\"'[(\\")
	}
}

// kindsOf reads GROUP/RESOURCE. The box has no versions.
func kindsOf(value string) (parts []Part, can bool) {
	for item := range strings.SplitSeq(strings.ReplaceAll(value, " ", ""), ",") {
		group, resource, _ := strings.Cut(item, "/")
		if resource == "" || strings.Contains(resource, "/") {
			return nil, false
		}
		parts = append(parts, Part{"kind", strings.TrimSuffix(resource+"."+group, ".")})
	}
	return parts, true
}

func ordersOf(value string) (parts []Part, can bool) {
	parts, can = list("sort")(value)
	for i, part := range parts {
		if name, downwards := strings.CutSuffix(part.Value, " desc"); downwards {
			parts[i].Value = "-" + strings.TrimSpace(name)
		}
	}
	return parts, can
}
