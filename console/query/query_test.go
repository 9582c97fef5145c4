// Copyright The Tripod Authors.
// SPDX-License-Identifier: Apache-2.0

package query

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	search "github.com/tripod-k8s/tripod/services/search/query"
)

func TestParametersOfTheBox(t *testing.T) {
	t.Parallel()
	for text, want := range map[string]string{
		"":                                    "",
		"kind:Pod":                            "",
		"cluster:a c:b ns:web name:x":         "clusters=a,b namespaces=web names=x",
		"label:app=x l:tier":                  "labelSelector=app=x,tier",
		"front shop":                          "words=front shop",
		"nginx:1.25":                          "words=nginx:1.25",
		`"a b"`:                               "words=a b",
		`x)y`:                                 "words=x)y",
		`field:"status.phase in (Failed)"`:    "fieldSelector=status.phase in (Failed)",
		"sort:-created sort:name sort:spec.a": "orderby=created_at desc,name,spec.a",
		"at:5m owner:1-2":                     "at=5m ownerUID=1-2",
		`"kind:Pod"`:                          "words=kind:Pod",
		"image:example.com/a,b":               `fieldSelector=spec.containers[].image|spec.template.spec.containers[].image icontains (example.com/a\,b)`,
		`metadata.name="x`:                    "error: a quotation mark has no second one",
		"kind:":                               "error: kind: needs a value, such as kind:Pod",
		"a\tb\n":                              "words=a b",
	} {
		q, err := Parse(text)
		got := ""
		if err != nil {
			got = "error: " + err.Error()
		} else {
			values := q.Parameters()
			for _, name := range []string{"at", "clusters", "namespaces", "names", "labelSelector", "fieldSelector", "orderby", "ownerUID", "words"} {
				if values.Has(name) {
					if got != "" {
						got += " "
					}
					got += name + "=" + values.Get(name)
				}
			}
		}
		assert.Equal(t, want, got, "%q", text)
	}
}

func TestChipsAreRemovedAndReplaced(t *testing.T) {
	t.Parallel()
	q, err := Parse(`kind:Pod front "a b" sort:name`)
	require.NoError(t, err)
	assert.Equal(t, `front "a b" sort:name`, q.Without(0).String())
	assert.Equal(t, `kind:Pod front "a b" sort:-name`, q.With("sort", "-name").String())
	assert.Equal(t, []string{"front", "a b"}, q.Values(""))
}

func TestCountsAndTheirGroups(t *testing.T) {
	t.Parallel()
	q, err := Parse("front count:kind count:status.phase sort:name")
	require.NoError(t, err)
	assert.Equal(t, "group,resource,status.phase", q.GroupBy())
	assert.Equal(t, "front sort:name", q.Objects().String())
	assert.Empty(t, q.Objects().GroupBy())

	q, err = Parse("count:cluster,kind,metadata.labels['a,b']")
	require.NoError(t, err)
	assert.Equal(t, []string{"cluster,kind,metadata.labels['a,b']"}, q.Values("count"), "one path")
	q, err = Parse("count:cluster,kind count:metadata.labels['a,b']")
	require.NoError(t, err)
	assert.Equal(t, []string{"cluster", "kind", "metadata.labels['a,b']"}, q.Values("count"))
	_, err = Parse("count:,")
	require.ErrorContains(t, err, "needs a value")
	_, err = Parse("count:" + strings.Repeat("a,", 33))
	require.ErrorContains(t, err, "the search has 33 parts")

	for _, test := range [][3]string{
		{"status.phase", "Running", "status.phase in (Running)"},
		{"status.phase", "", "status.phase="},
		{"spec.unschedulable", "", "!spec.unschedulable"},
		{"metadata.annotations['a b']", `a "b", (c)\` + "\r\n\t", `metadata.annotations['a b'] in (a\ \"b\"\,\ \(c\)\\` + "\\\r\\\n\\\t)"},
		{"spec.x", strings.Repeat("ä", 256), "spec.x startswith (" + strings.Repeat("ä", 256) + ")"},
	} {
		selector := Having(test[0], test[1])
		assert.Equal(t, test[2], selector)
		fields, err := search.ParseFields(selector)
		require.NoError(t, err, selector)
		require.Len(t, fields, 1, selector)
		if test[1] != "" {
			assert.Equal(t, []string{test[1]}, fields[0].Values, selector)
		}
	}
}

// FuzzParse has the text of a query read as the same query.
func FuzzParse(f *testing.F) {
	for _, seed := range []string{"", "kind:Pod a", `"kind:Pod" label:"a b"`, `"\\\""`, "a:b:c", `x"y z"`, `name:":"`} {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, text string) {
		q, err := Parse(text)
		if err != nil {
			return
		}
		again, err := Parse(q.String())
		if len(q.String()) > maxText {
			return
		}
		require.NoError(t, err, "%q", q.String())
		require.Equal(t, q, again, "%q", q.String())
		q.Parameters()
	})
}
