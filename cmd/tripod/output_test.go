// Copyright The Tripod Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"io"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

func TestFormatsOfLists(t *testing.T) {
	type item struct {
		Replica string `json:"replica"`
		Ready   bool   `json:"ready,omitempty"`
	}
	items := []item{{"core-0", true}, {"core-1", false}}
	table := func(out io.Writer, items []item) error {
		table := newTable(out, "REPLICA", "READY")
		for _, i := range items {
			row(table, i.Replica, i.Ready)
		}
		return table.Flush()
	}
	for format, want := range map[string]string{
		"table":                      "REPLICA   READY\ncore-0    true\ncore-1    false\n",
		"json":                       "[\n  {\n    \"replica\": \"core-0\",\n    \"ready\": true\n  },\n  {\n    \"replica\": \"core-1\"\n  }\n]\n",
		"yaml":                       "- ready: true\n  replica: core-0\n- replica: core-1\n",
		"name":                       "core-0\ncore-1\n",
		"jsonpath={[*].replica}":     "core-0 core-1\n",
		"jsonpath=[1].replica":       "core-1\n",
		"jsonpath={[0]['replica']}=": "core-0=\n",
	} {
		var f listFormat
		require.NoError(t, f.Set(format))
		var out strings.Builder
		require.NoError(t, printList(&out, f, items, func(i item) string { return i.Replica }, table))
		assert.Equal(t, want, out.String(), format)
	}
	var out strings.Builder
	require.NoError(t, printList(&out, listFormat{name: formatJSON}, nil, func(i item) string { return i.Replica }, table))
	assert.Equal(t, "[]\n", out.String())
	for _, format := range []string{"", "text", "json=x", "jsonpath", "jsonpath=", "jsonpath={"} {
		assert.Error(t, new(listFormat).Set(format), format)
	}
}
