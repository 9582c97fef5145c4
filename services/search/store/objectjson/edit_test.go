// Copyright The Tripod Authors.
// SPDX-License-Identifier: Apache-2.0

package objectjson

import (
	"encoding/json"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

func TestTheResourceVersionOfAnObjectIsItsRevision(t *testing.T) {
	for text, want := range map[string]string{
		`{"metadata":{"resourceVersion":"1"}}`:                                  `{"metadata":{"resourceVersion":"70"}}`,
		`{"metadata":{"name":"a","resourceVersion" : "1234", "uid":"u"}}`:       `{"metadata":{"name":"a","resourceVersion" : "70", "uid":"u"}}`,
		`{"spec":{"metadata":{"resourceVersion":"1"}},"metadata":{}}`:           `{"spec":{"metadata":{"resourceVersion":"1"}},"metadata":{"resourceVersion":"70"}}`,
		`{"metadata": {"name": "a"}}`:                                           `{"metadata": {"resourceVersion":"70","name": "a"}}`,
		`{"metadata":{"annotations":{"resourceVersion":"1"},"name":"a"}}`:       `{"metadata":{"resourceVersion":"70","annotations":{"resourceVersion":"1"},"name":"a"}}`,
		`{"a":"\"metadata\":{","b":[1,{"c":"]}"}],"metadata":{"name":"\\"}}`:    `{"a":"\"metadata\":{","b":[1,{"c":"]}"}],"metadata":{"resourceVersion":"70","name":"\\"}}`,
		`{"n":-1.5e3,"t":true,"z":null,"metadata":{"resourceVersion":"\"1\""}}`: `{"n":-1.5e3,"t":true,"z":null,"metadata":{"resourceVersion":"70"}}`,
		`{"spec":{}}`:      `{"spec":{}}`,
		`{"metadata":"x"}`: `{"metadata":"x"}`,
		`[]`:               `[]`,
	} {
		assert.Equal(t, want, string(WithRevision([]byte(text), 70)), text)
	}
}

func FuzzRevisions(f *testing.F) {
	f.Add(`{"a":[1,"\"",{}],"metadata":{"name":"x","resourceVersion":"1"},"b":null}`)
	f.Add(`{"metadata": { } , "x": -1 }`)
	f.Fuzz(func(t *testing.T, text string) {
		WithRevision([]byte(text), 70) // whatever it is, it must not panic
		var before, after map[string]any
		if json.Unmarshal([]byte(text), &before) != nil {
			return
		}
		canonical, err := json.Marshal(before) // each field once, and names without escapes, as the store gets them
		require.NoError(t, err)
		revised := WithRevision(canonical, 70)
		require.NoError(t, json.Unmarshal(revised, &after), "%s", revised)
		if metadata, ok := before["metadata"].(map[string]any); ok {
			metadata["resourceVersion"] = "70"
		}
		assert.Equal(t, before, after)
	})
}
