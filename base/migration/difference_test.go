// Copyright The Tripod Authors.
// SPDX-License-Identifier: Apache-2.0

package migration

import (
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"k8s.io/apimachinery/pkg/util/json"
)

func decode(t *testing.T, text string) map[string]any {
	t.Helper()
	var object map[string]any
	require.NoError(t, json.Unmarshal([]byte(text), &object))
	return object
}

func TestTheFirstDifferenceIsNamed(t *testing.T) {
	for name, test := range map[string]struct{ object, returned, want string }{
		"the same":                          {`{"spec": {"a": [1, {"b": "c"}]}}`, `{"spec": {"a": [1, {"b": "c"}]}}`, ""},
		"another resourceVersion":           {`{"metadata": {"name": "a", "resourceVersion": "1"}}`, `{"metadata": {"name": "a"}}`, ""},
		"a resourceVersion that is a field": {`{"spec": {"resourceVersion": "1"}}`, `{"spec": {}}`, "spec.resourceVersion would be lost"},
		"a lost field":                      {`{"spec": {"a": 1, "b": 2}}`, `{"spec": {"a": 1}}`, "spec.b would be lost"},
		"a lost object":                     {`{"spec": {"emptyDir": {}}}`, `{"spec": {}}`, "spec.emptyDir would be lost"},
		"a lost UID":                        {`{"metadata": {"uid": "1"}}`, `{"metadata": {}}`, "metadata.uid would be lost"},
		"a changed field":                   {`{"spec": {"items": [{"a": 1}, {"a": 2}]}}`, `{"spec": {"items": [{"a": 1}, {"a": 3}]}}`, "spec.items[1].a would change"},
		"a shorter list":                    {`{"spec": {"items": [1, 2]}}`, `{"spec": {"items": [1]}}`, "spec.items would change"},
		"another type":                      {`{"spec": {"a": "1"}}`, `{"spec": {"a": 1}}`, "spec.a would change"},
		"an object for a list":              {`{"spec": {"a": [1]}}`, `{"spec": {"a": {}}}`, "spec.a would change"},
		"a list for an object":              {`{"spec": {"a": {}}}`, `{"spec": {"a": [1]}}`, "spec.a would change"},
		"a default":                         {`{"spec": {}}`, `{"spec": {"size": 1}}`, "spec.size would be added"},
		"a zero":                            {`{"spec": {}}`, `{"spec": {"size": 0}}`, "spec.size would be added"},
		"an empty status":                   {`{"spec": {"a": 1}}`, `{"spec": {"a": 1, "b": {"c": {}, "d": null}}, "status": {}}`, ""},
		"null":                              {`{"spec": {"a": null}}`, `{"spec": {}}`, ""},
		"one number":                        {`{"spec": {"a": 1.0, "b": 1}}`, `{"spec": {"a": 1, "b": 1.0}}`, ""},
		"another number":                    {`{"spec": {"a": 9007199254740993}}`, `{"spec": {"a": 9007199254740992.0}}`, "spec.a would change"},
		"the first one of several":          {`{"spec": {"a": 1, "b": 1}}`, `{"spec": {"b": 2, "c": 3}}`, "spec.a would be lost"},
	} {
		t.Run(name, func(t *testing.T) {
			found := FirstDifference(decode(t, test.object), decode(t, test.returned))
			if test.want == "" {
				assert.Nil(t, found, "%v", found)
				return
			}
			require.NotNil(t, found)
			assert.Equal(t, test.want, found.String())
		})
	}
}

func TestPathsAreParsed(t *testing.T) {
	for path, want := range map[string][]string{
		PathOf("library.example.com", ""):      {"library.example.com", ""},
		PathOf("library.example.com", "books"): {"library.example.com", "books"},
		"/migration":                           nil,
		"/migration/":                          nil,
		"/migration//books":                    nil,
		"/migration/a/b/c":                     nil,
		"/migrations/a":                        nil,
	} {
		group, resource, ok := Parse(path)
		assert.Equal(t, want != nil, ok, path)
		if ok {
			assert.Equal(t, want, []string{group, resource}, path)
		}
	}
	assert.NoError(t, ValidateMove("to-books-1"))
	for _, wrong := range []string{"", "A", "a b", "a/b"} {
		assert.Error(t, ValidateMove(wrong), wrong)
	}
}
