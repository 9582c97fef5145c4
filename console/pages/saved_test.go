// Copyright The Tripod Authors.
// SPDX-License-Identifier: Apache-2.0

package pages

import (
	"html"
	"net/http"
	"net/url"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

func TestSavedSearchesAreBookmarks(t *testing.T) {
	t.Parallel()
	saved := func(name string, parameters map[string]any, status map[string]any) map[string]any {
		return map[string]any{
			"metadata": map[string]any{"name": name}, "spec": map[string]any{"description": evil, "parameters": parameters}, "status": status,
		}
	}
	conditions := func(kind, status, reason string) []any {
		return []any{map[string]any{"type": "Evaluated", "status": "False", "reason": "Forbidden", "message": evil},
			map[string]any{"type": kind, "status": status, "reason": reason}}
	}
	const path = "/apis/search.tripod-k8s.io/v1alpha1/savedsearches"
	pages := serving(t, map[string]any{path: map[string]any{"metadata": map[string]any{"continue": "x"}, "items": []any{
		saved("zebra", map[string]any{"groups": "*", "since": "2026-01-01"}, nil),
		saved("failed", map[string]any{"resources": "/pods", "fieldSelector": evil}, map[string]any{
			"matches": 12, "conditions": conditions("Exceeded", "True", "MoreMatches"), "lastEvaluation": "2026-01-01T00:00:00Z",
		}),
	}}})
	answer := get(t, pages, "/saved")
	require.Equal(t, http.StatusOK, answer.Code, answer.Body)
	text := answer.Body.String()
	assert.NotContains(t, text, "<script")
	assert.NotContains(t, text, "<img src=x")
	link := "./?" + url.Values{"q": {`field:"\` + evil + `" kind:pods`}}.Encode()
	assert.Contains(t, text, strings.ReplaceAll(html.EscapeString(link), "+", "&#43;"))
	assert.Contains(t, text, "<td>12 <strong>exceeded</strong></td>")
	assert.Contains(t, text, "Forbidden: ")
	assert.Less(t, strings.Index(text, ">failed</a>"), strings.Index(text, "zebra"), "in the order of names")
	assert.NotContains(t, text, "zebra</a>", "the box has no since:")
	assert.Contains(t, text, "since=2026-01-01", "the command has it")
	assert.Contains(t, text, "There are more")
	assert.Contains(t, get(t, serving(t, map[string]any{path: map[string]any{}}), "/saved").Body.String(), "There are none.")

	missing := get(t, serving(t, nil), "/saved")
	assert.Equal(t, http.StatusNotFound, missing.Code)
	assert.Contains(t, missing.Body.String(), "has no saved searches")
}
