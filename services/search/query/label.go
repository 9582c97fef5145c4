// Copyright The Tripod Authors.
// SPDX-License-Identifier: Apache-2.0

package query

import (
	"errors"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/selection"
)

// givenBy returns what a requirement of a label selector says of a parameter. text is the whole selector.
func givenBy(r labels.Requirement, text string) (given, error) {
	g := given{label: true, values: inWrittenOrder(r, text)}
	switch r.Operator() {
	case selection.Equals, selection.DoubleEquals, selection.In:
	case selection.NotEquals, selection.NotIn:
		g.not = true
	case selection.Exists:
		g.exists = true
	case selection.DoesNotExist:
		g.missing = true
	default:
		return given{}, errors.New("< and > are not possible")
	}
	return g, nil
}

// inWrittenOrder returns the values of a requirement in the order of the text, which a parsed requirement does not keep. The text is valid,
// so values consist of characters that separate nothing.
func inWrittenOrder(r labels.Requirement, text string) []string {
	values := r.ValuesUnsorted()
	slices.Sort(values)
	if len(values) < 2 {
		return values
	}
	for rest := text; ; {
		_, after, found := strings.Cut(rest, r.Key())
		if !found {
			return values
		}
		_, list, _ := strings.Cut(after, "(")
		list, rest, _ = strings.Cut(list, ")")
		written := split(list)
		if sorted := slices.Compact(slices.Sorted(slices.Values(written))); slices.Equal(sorted, values) {
			return written
		}
	}
}

func asTexts[T ~string](values []T) (texts []string) {
	for _, value := range values {
		texts = append(texts, string(value))
	}
	return texts
}
