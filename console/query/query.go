// Copyright The Tripod Authors.
// SPDX-License-Identifier: Apache-2.0

package query

import (
	"fmt"
	"net/url"
	"slices"
	"strings"
	"unicode/utf8"

	search "github.com/tripod-k8s/tripod/services/search/query"
)

// Bounds of a query. Search has its own.
const (
	maxText  = 4 << 10
	maxParts = 32
)

// Part is a word, or a parameter with a key.
type Part struct{ Key, Value string }

// Query is what a person searches for.
type Query struct{ Parts []Part }

// keys are those of parameters, with their short forms.
var keys = map[string]string{
	"kind": "kind", "k": "kind", "cluster": "cluster", "c": "cluster", "namespace": "namespace", "ns": "namespace", "n": "namespace",
	"name": "name", "label": "label", "l": "label", "field": "field", "f": "field", "image": "image", "owner": "owner", "at": "at",
	"sort": "sort", "count": "count",
}

// Parse reads the text of the box.
func Parse(text string) (Query, error) {
	var q Query
	if len(text) > maxText {
		return q, fmt.Errorf("the search has %d characters, at most %d are possible", len(text), maxText)
	}
	parts, err := split(text)
	if err != nil {
		return q, err
	}
	for _, part := range parts {
		if !part.quoted {
			if key, value, found := strings.Cut(part.text, ":"); found && keys[key] != "" {
				values := valuesOf(keys[key], value)
				if len(values) == 0 {
					return q, fmt.Errorf("%s: needs a value, such as %s", key, examples[keys[key]])
				}
				for _, value := range values {
					q.Parts = append(q.Parts, Part{keys[key], value})
				}
				continue
			}
		}
		q.Parts = append(q.Parts, Part{"", part.text})
	}
	if len(q.Parts) > maxParts {
		return q, fmt.Errorf("the search has %d parts, at most %d are possible", len(q.Parts), maxParts)
	}
	return q, nil
}

// valuesOf returns the values of a part, which are none if it is empty. Objects are counted by each of a list. A path with brackets or
// quotes may have commas, and is one value.
func valuesOf(key, value string) []string {
	values := []string{value}
	if key == countKey && !strings.ContainsAny(value, "\"'[(\\") {
		values = strings.Split(value, ",")
	}
	return slices.DeleteFunc(values, func(value string) bool { return value == "" })
}

var examples = map[string]string{
	"kind": "kind:Pod", "cluster": "cluster:east", "namespace": "namespace:web", "name": "name:front", "label": "label:app=web",
	"field": "field:status.phase=Failed", "image": "image:nginx", "owner": "owner:UID", "at": "at:5m", "sort": "sort:-created",
	"count": "count:namespace",
}

type token struct {
	text string
	// quoted is whether it begins with a quote, and so has no key.
	quoted bool
}

// split divides a text at blanks outside of quotes. In quotes, a backslash is before each quote and backslash.
func split(text string) (tokens []token, err error) {
	var now strings.Builder
	inside, begun, escaped, quoted := false, false, false, false
	end := func() {
		if begun && now.Len() > 0 {
			tokens = append(tokens, token{now.String(), quoted})
		}
		now.Reset()
		begun, quoted = false, false
	}
	for _, r := range text {
		switch {
		case escaped:
			now.WriteRune(r)
			escaped = false
		case inside && r == '\\':
			escaped = true
		case r == '"':
			quoted = quoted || !begun
			inside, begun = !inside, true
		case !inside && strings.ContainsRune(" \t\r\n", r):
			end()
		default:
			now.WriteRune(r)
			begun = true
		}
	}
	if inside {
		return nil, fmt.Errorf("a quotation mark has no second one")
	}
	end()
	return tokens, nil
}

// String returns a text that reads as the same query.
func (q Query) String() string {
	texts := make([]string, len(q.Parts))
	for i, part := range q.Parts {
		texts[i] = part.String()
	}
	return strings.Join(texts, " ")
}

// String returns the part as the box has it.
func (p Part) String() string {
	value := p.Value
	key, _, found := strings.Cut(value, ":")
	if strings.ContainsAny(value, " \t\r\n\"\\") || p.Key == "" && found && keys[key] != "" {
		value = `"` + strings.NewReplacer(`\`, `\\`, `"`, `\"`).Replace(value) + `"`
	}
	if p.Key == "" {
		return value
	}
	return p.Key + ":" + value
}

// Without returns the query without the part at an index.
func (q Query) Without(index int) Query {
	return Query{slices.Delete(slices.Clone(q.Parts), index, index+1)}
}

// With returns the query with a part in place of those of its key.
func (q Query) With(key, value string) Query {
	parts := slices.DeleteFunc(slices.Clone(q.Parts), func(p Part) bool { return p.Key == key })
	return Query{append(parts, Part{key, value})}
}

// Objects returns the query without what objects are counted by.
func (q Query) Objects() Query {
	return Query{slices.DeleteFunc(slices.Clone(q.Parts), func(p Part) bool { return p.Key == countKey })}
}

// Values returns the values of a key. The empty key is that of words.
func (q Query) Values(key string) (values []string) {
	for _, part := range q.Parts {
		if part.Key == key {
			values = append(values, part.Value)
		}
	}
	return values
}

// imageFields are those in which image: looks.
const imageFields = "spec.containers[].image|spec.template.spec.containers[].image"

// columns are those that search sorts by. Another value of sort is a path of a field.
var columns = map[string]string{
	"cluster": "cluster", "namespace": "namespace", "name": "name", "kind": "kind", "created": "created_at", "age": "created_at",
}

// countKey is the key of what objects are counted by.
const countKey = "count"

// ByKind is a value of count: for kinds. Kinds of different groups may have the same name, so search counts them by their resources.
const ByKind = "kind"

// GroupBy returns the parameter groupBy of search, or nothing if objects are not counted.
func (q Query) GroupBy() string {
	var columns []string
	for _, by := range q.Values(countKey) {
		if by == ByKind {
			by = "group,resource"
		}
		columns = append(columns, by)
	}
	return strings.Join(columns, ",")
}

// groupLength is how many characters of a text search counts by.
const groupLength = 256

// Having returns a field selector of the objects that search counts with a value of a field.
func Having(path, value string) string {
	switch {
	case value == "" && isComputed(path): // of which Kubernetes says another value if it is not there
		return "!" + path
	case value == "":
		return path + "="
	case utf8.RuneCountInString(value) >= groupLength:
		return path + " startswith (" + escaper.Replace(value) + ")"
	}
	return path + " in (" + escaper.Replace(value) + ")"
}

func isComputed(path string) bool {
	fields, err := search.ParseFields(path + "=")
	return err == nil && len(fields) == 1 && len(fields[0].ComputedKinds()) > 0
}

// Parameters returns the parameters of search, without those of the kind and the page.
func (q Query) Parameters() url.Values {
	values := url.Values{}
	for key, parameter := range map[string]string{
		"cluster": "clusters", "namespace": "namespaces", "name": "names", "label": "labelSelector",
	} {
		if all := q.Values(key); len(all) > 0 {
			values.Set(parameter, strings.Join(all, ","))
		}
	}
	fields := q.Values("field")
	if words := q.Values(""); len(words) > 0 {
		values.Set("words", strings.Join(words, " "))
	}
	for _, image := range q.Values("image") {
		fields = append(fields, imageFields+" icontains ("+escaper.Replace(image)+")")
	}
	if len(fields) > 0 {
		values.Set("fieldSelector", strings.Join(fields, ","))
	}
	for key, parameter := range map[string]string{"owner": "ownerUID", "at": "at"} {
		if all := q.Values(key); len(all) > 0 {
			values.Set(parameter, all[len(all)-1])
		}
	}
	var order []string
	for _, by := range q.Values("sort") {
		name, downwards := strings.CutPrefix(by, "-")
		if column := columns[strings.ToLower(name)]; column != "" {
			name = column
		}
		if downwards {
			name += " desc"
		}
		order = append(order, name)
	}
	if len(order) > 0 {
		values.Set("orderby", strings.Join(order, ","))
	}
	return values
}

// escaper has each character of a text in a list of a field selector be meant literally.
var escaper = strings.NewReplacer(
	`\`, `\\`, `"`, `\"`, ",", `\,`, "(", `\(`, ")", `\)`, " ", `\ `, "\t", "\\\t", "\n", "\\\n", "\r", "\\\r")
