// Copyright The Tripod Authors.
// SPDX-License-Identifier: Apache-2.0

package requests

import (
	"net/http"
	"slices"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

func TestDifferencesAreFound(t *testing.T) {
	for _, tc := range []struct {
		name          string
		stock, tripod string
		want          []string
	}{
		{name: "equal", stock: `{"a":[1,"x",null]}`, tripod: `{"a":[1,"x",null]}`},
		{name: "another value", stock: `{"a":{"b":1}}`, tripod: `{"a":{"b":2}}`, want: []string{"/a/b"}},
		{name: "another type", stock: `{"a":{}}`, tripod: `{"a":[]}`, want: []string{"/a"}},
		{name: "null is not nothing", stock: `{"a":null}`, tripod: `{}`, want: []string{"/a"}},
		{name: "more and less", stock: `{"a":1}`, tripod: `{"b":1}`, want: []string{"/a", "/b"}},
		{
			name:  "objects are compared by name",
			stock: `[{"name":"x","v":1},{"name":"y","v":1}]`, tripod: `[{"name":"x","v":1},{"name":"y","v":2}]`,
			want: []string{"[y]/v"},
		},
		{
			name:  "an object too many does not shift the others",
			stock: `[{"metadata":{"name":"y"}}]`, tripod: `[{"metadata":{"name":"x"}},{"metadata":{"name":"y"}}]`,
			want: []string{"[x]"},
		},
		{name: "another order", stock: `["a","b"]`, tripod: `["b","a"]`, want: []string{" order"}},
		{name: "twice the same", stock: `["a"]`, tripod: `["a","a"]`, want: []string{"[a#1]"}},
		{name: "a line of a text", stock: `"a\nb\n"`, tripod: `"a\nc\n"`, want: []string{"[b]", "[c]"}},
	} {
		t.Run(tc.name, func(t *testing.T) {
			d := &differ{}
			d.compare("", decodeOrSay(jsonType, []byte(tc.stock)), decodeOrSay(jsonType, []byte(tc.tripod)))
			var got []string
			for _, difference := range d.found {
				got = append(got, difference.at)
			}
			if !slices.Equal(got, tc.want) {
				t.Errorf("differences at %q, want %q", got, tc.want)
			}
		})
	}
}

func TestWhatDiffersBetweenAnyTwoClustersIsRemoved(t *testing.T) {
	n := normaliserOf("127.0.0.1:4321", map[string]string{"0e984725-c51c-4bf4-9960-e1c80e27aba0": "exempt"})
	for in, want := range map[string]string{
		`{"uid":"1e984725-c51c-4bf4-9960-e1c80e27aba0"}`: `{"uid":"UID"}`,
		`["0e984725-c51c-4bf4-9960-e1c80e27aba0"]`:       `["UID of exempt"]`,
		`{"resourceVersion":"12"}`:                       `{"resourceVersion":"RESOURCE-VERSION"}`,
		`{"resourceVersion":""}`:                         `{"resourceVersion":""}`,
		`{"resourceVersion":{"type":"string"}}`:          `{"resourceVersion":{"type":"string"}}`,
		`{"at":"2026-01-02T03:04:05Z"}`:                  `{"at":"TIME"}`,
		`{"port":4321,"other":4322}`:                     `{"other":4322,"port":"PORT"}`,
		`{"server":"https://127.0.0.1:4321/a"}`:          `{"server":"https://HOST:PORT/a"}`,
		`{"cells":["a","5m2s"]}`:                         `{"cells":["a","AGE"]}`,
		`{"ip":"10.0.0.57","kubernetes":"10.0.0.1"}`:     `{"ip":"CLUSTER-IP","kubernetes":"10.0.0.1"}`,
	} {
		assert.Equal(t, want, inWords(n.Value(decodeOrSay(jsonType, []byte(in)))), "%s becomes", in)
	}
	headers := n.headers(http.Header{"Audit-Id": {"x"}, "Content-Length": {"1"}, "Vary": {"b", "a"}})
	if got, want := inWords(headers), `{"Audit-Id":"PRESENT","Vary":["a","b"]}`; got != want {
		t.Errorf("headers %s, want %s", got, want)
	}
}

func TestAcceptedDifferencesMatchAsAWhole(t *testing.T) {
	entry := &accepted{Request: "GET /api.*", At: "body/a", Tripod: "x|y", Reason: "test"}
	require.NoError(t, entry.compile())
	good := difference{request: "GET /apis", at: "body/a", stock: "s", tripod: "x"}
	for name, tc := range map[string]struct {
		change func(*difference)
		want   bool
	}{
		"all":             {func(*difference) {}, true},
		"any other stock": {func(d *difference) { d.stock = "t" }, true},
		"another request": {func(d *difference) { d.request = "POST /apis" }, false},
		"below the place": {func(d *difference) { d.at = "body/a/b" }, false},
		"another answer":  {func(d *difference) { d.tripod = "xy" }, false},
	} {
		changed := good
		tc.change(&changed)
		assert.Equal(t, tc.want, entry.matches(changed), "%s: accepted", name)
	}
	for _, incomplete := range []accepted{{At: "a"}, {Reason: "r"}, {At: "(", Reason: "r"}} {
		if err := incomplete.compile(); err == nil {
			t.Errorf("%+v is taken for an entry", incomplete)
		}
	}
}
