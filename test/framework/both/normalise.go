// Copyright The Tripod Authors.
// SPDX-License-Identifier: Apache-2.0

package both

import (
	"bytes"
	"encoding/json"
	"fmt"
	"regexp"
	"slices"
	"strings"
)

// Volatile is text that differs between any two clusters, and its replacement.
type Volatile struct {
	Pattern *regexp.Regexp
	With    string
}

// volatile is what every comparison replaces.
var volatile = []Volatile{
	{regexp.MustCompile(`[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}`), "UID"},
	{regexp.MustCompile(`\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(\.\d+)?Z`), "TIME"},
	{regexp.MustCompile(`X509SHA256=[0-9a-f]{64}`), "X509SHA256=HASH"},
}

// Normaliser removes what differs between any two clusters.
type Normaliser struct {
	// Volatile is replaced in addition to UIDs, times and fingerprints of certificates.
	Volatile []Volatile
	// Fields maps names of fields with such text, in any object, to the replacement. Empty values and "0" stay.
	Fields map[string]string
	// Sets are the names of lists without an order.
	Sets []string
	// Own handles a field itself if it returns true.
	Own func(name string, value any) (any, bool)
	// OwnText changes a text before anything else does, and OwnNumber a number. Both may be nil.
	OwnText   func(string) string
	OwnNumber func(json.Number) any
}

// Text returns a text without what differs.
func (n Normaliser) Text(text string) string {
	if n.OwnText != nil {
		text = n.OwnText(text)
	}
	for _, list := range [][]Volatile{n.Volatile, volatile} {
		for _, v := range list {
			text = v.Pattern.ReplaceAllString(text, v.With)
		}
	}
	return text
}

// Value returns a decoded JSON value without what differs.
func (n Normaliser) Value(value any) any {
	switch value := value.(type) {
	case map[string]any:
		result := make(map[string]any, len(value))
		for name, field := range value {
			result[n.Text(name)] = n.field(name, field)
		}
		return result
	case []any:
		result := make([]any, len(value))
		for i, element := range value {
			result[i] = n.Value(element)
		}
		return result
	case string:
		return n.Text(value)
	case json.Number:
		if n.OwnNumber != nil {
			return n.OwnNumber(value)
		}
	}
	return value
}

func (n Normaliser) field(name string, value any) any {
	if n.Own != nil {
		if own, decided := n.Own(name, value); decided {
			return own
		}
	}
	if with, found := n.Fields[name]; found {
		if text, isText := value.(string); isText && text != "" && text != "0" {
			return with
		}
	}
	normal := n.Value(value)
	if list, isList := normal.([]any); isList && slices.Contains(n.Sets, name) {
		slices.SortFunc(list, func(a, b any) int { return strings.Compare(InWords(a), InWords(b)) })
	}
	return normal
}

// InWords returns a decoded JSON value as one line of JSON.
func InWords(value any) string {
	var b bytes.Buffer
	encoder := json.NewEncoder(&b)
	encoder.SetEscapeHTML(false)
	if err := encoder.Encode(value); err != nil {
		return fmt.Sprintf("%#v", value)
	}
	return strings.TrimSpace(b.String())
}
