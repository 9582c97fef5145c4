// Copyright The Tripod Authors.
// SPDX-License-Identifier: Apache-2.0

package both

import (
	"encoding/json"
	"regexp"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

func TestWhatDiffersBetweenAnyTwoClustersIsRemoved(t *testing.T) {
	n := Normaliser{
		Volatile:  []Volatile{{regexp.MustCompile(`gen-[a-z0-9]{5}`), "gen-RANDOM"}},
		Fields:    map[string]string{"resourceVersion": "RESOURCE-VERSION"},
		Sets:      []string{"managedFields"},
		OwnText:   func(text string) string { return strings.ReplaceAll(text, "127.0.0.1:4321", "HOST") },
		OwnNumber: func(number json.Number) any { return "N" + number.String() },
		Own:       func(name string, _ any) (any, bool) { return "OWN", name == "own" },
	}
	for in, want := range map[string]string{
		`{"uid":"1e984725-c51c-4bf4-9960-e1c80e27aba0"}`: `{"uid":"UID"}`,
		`{"at":"2026-01-02T03:04:05Z"}`:                  `{"at":"TIME"}`,
		`{"resourceVersion":"12"}`:                       `{"resourceVersion":"RESOURCE-VERSION"}`,
		`{"resourceVersion":""}`:                         `{"resourceVersion":""}`,
		`{"resourceVersion":"0"}`:                        `{"resourceVersion":"0"}`,
		`{"resourceVersion":{"type":"string"}}`:          `{"resourceVersion":{"type":"string"}}`,
		`{"managedFields":["b","a"],"other":["b","a"]}`:  `{"managedFields":["a","b"],"other":["b","a"]}`,
		`{"server":"https://127.0.0.1:4321/a"}`:          `{"server":"https://HOST/a"}`,
		`{"own":{"a":1},"other":1}`:                      `{"other":"N1","own":"OWN"}`,
		`["gen-abc12",null,true]`:                        `["gen-RANDOM",null,true]`,
	} {
		decoder := json.NewDecoder(strings.NewReader(in))
		decoder.UseNumber()
		var value any
		require.NoError(t, decoder.Decode(&value))
		assert.Equal(t, want, InWords(n.Value(value)), "%s becomes", in)
	}
}
