// Copyright The Tripod Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"encoding/json"
	"errors"
	"io"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/tripod-k8s/tripod/admin/check"
	"github.com/tripod-k8s/tripod/admin/etcd/split"
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

func TestAReportThatListsHasTheFormatsOfLists(t *testing.T) {
	report := &split.Report{Written: 3, Resources: []split.Resource{
		{Name: "boats.example.com", Objects: 2, Checksum: "ab"}, {Name: "masts.example.com", Objects: 1, Checksum: "cd"},
	}}
	names := []string{"boats.example.com", "masts.example.com"}
	for format, want := range map[string]string{
		"table": "RESOURCE            OBJECTS   SHA-256\nboats.example.com   2         ab\nmasts.example.com   1         cd\n\n" +
			"objects: 3 written to the target\n",
		"name":                          "boats.example.com\nmasts.example.com\n",
		"jsonpath={.resources[*].name}": "boats.example.com masts.example.com\n",
	} {
		var f listFormat
		require.NoError(t, f.Set(format))
		var out strings.Builder
		require.NoError(t, printValue(&out, f, report, names, printSplit))
		assert.Equal(t, want, out.String(), format)
	}
	var out strings.Builder
	require.NoError(t, printGroups(&out, []split.GroupReport{{Group: "example.com", To: "big", Bytes: 4096, Seconds: 1.25}}, true))
	assert.Equal(t, "GROUP         TO    OBJECTS   KIB   SECONDS (ESTIMATE)   PAUSED (ESTIMATE)\n"+
		"example.com   big   0         4     1.2                  0.0\n", out.String())
}

func TestACheckAsJSON(t *testing.T) {
	broken := errors.New("cannot read it")
	for name, tc := range map[string]struct {
		err  error
		want string
	}{
		"of an API that works":  {nil, `{"ok": true, "steps": [{"done": "created", "what": "ConfigMap a/b"}], "warnings": ["core differs"]}`},
		"of one that is broken": {broken, `{"ok": false, "steps": [{"done": "created", "what": "ConfigMap a/b"}], "warnings": ["core differs"], "error": "cannot read it"}`},
	} {
		t.Run(name, func(t *testing.T) {
			run := func(step func(check.Step)) error {
				step(check.Step{Done: "created", What: "ConfigMap a/b"})
				step(check.Step{Done: check.Warning, What: "core differs"})
				return tc.err
			}
			var out strings.Builder
			require.ErrorIs(t, report(&out, formatJSON, run), tc.err)
			assert.JSONEq(t, tc.want, out.String())
			out.Reset()
			require.ErrorIs(t, report(&out, formatText, run), tc.err)
			assert.Equal(t, "created   ConfigMap a/b\nwarning   core differs\n", out.String())
		})
	}
	var out strings.Builder
	require.NoError(t, report(&out, formatJSON, func(func(check.Step)) error { return nil }))
	var result map[string]any
	require.NoError(t, json.Unmarshal([]byte(out.String()), &result))
	assert.Equal(t, map[string]any{"ok": true, "steps": []any{}, "warnings": []any{}}, result, "no list is null")
}
