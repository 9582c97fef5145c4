// Copyright The Tripod Authors.
// SPDX-License-Identifier: Apache-2.0

package crd

import (
	"encoding/json"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/client-go/rest"

	"github.com/tripod-k8s/tripod/base/migration"
)

// The list of a large group takes longer than etcd keeps its revision.
func TestAListGoesOnAfterACompaction(t *testing.T) {
	book := func(name string) map[string]any {
		return map[string]any{"apiVersion": "example.com/v1", "kind": "Book", "metadata": map[string]any{"name": name}}
	}
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, req *http.Request) {
		w.Header().Set("Content-Type", "application/json")
		answer := func(name, next string) any {
			if strings.HasPrefix(req.URL.Path, migration.PathOf("example.com", "books")) {
				data, _ := json.Marshal(book(name))
				return migration.Page{ResourceVersion: "7", Continue: next, Objects: []json.RawMessage{data}}
			}
			return map[string]any{
				"apiVersion": "example.com/v1", "kind": "BookList", "metadata": map[string]any{"continue": next}, "items": []any{book(name)},
			}
		}
		var body any
		switch {
		case strings.HasPrefix(req.URL.Path, "/apis/apiextensions.k8s.io/"):
			body = json.RawMessage(definitions)
		case req.URL.Query().Get("continue") == "":
			body = answer("a", "compacted")
		case req.URL.Query().Get("continue") == "compacted":
			w.WriteHeader(http.StatusGone)
			body = metav1.Status{
				TypeMeta: metav1.TypeMeta{APIVersion: "v1", Kind: "Status"}, Status: metav1.StatusFailure, Code: http.StatusGone,
				Reason: metav1.StatusReasonExpired, ListMeta: metav1.ListMeta{Continue: "later"},
			}
		default:
			assert.Equal(t, "later", req.URL.Query().Get("continue"))
			body = answer("b", "")
		}
		assert.NoError(t, json.NewEncoder(w).Encode(body))
	}))
	defer server.Close()
	c, err := newChecker(Options{
		Config: &rest.Config{Host: server.URL}, Group: "example.com", Service: "books", Progress: func(string) {},
	})
	require.NoError(t, err)
	all, err := c.definitions(t.Context())
	require.NoError(t, err)
	for name, from := range map[string]source{"clients' objects": &listed{c}, "a service's": &owner{c, "books"}} {
		t.Run(name, func(t *testing.T) {
			var names []string
			require.NoError(t, from.each(t.Context(), all[0], func(data json.RawMessage) error {
				object := &unstructured.Unstructured{}
				err := json.Unmarshal(data, object)
				names = append(names, object.GetName())
				return err
			}))
			assert.Equal(t, []string{"a", "b"}, names)
		})
	}
}

func TestAServiceThatCannotBeRaisedSaysSo(t *testing.T) {
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, req *http.Request) {
		w.Header().Set("Content-Type", "application/json")
		if strings.HasPrefix(req.URL.Path, "/apis/apiextensions.k8s.io/") {
			_, _ = w.Write([]byte(definitions))
			return
		}
		assert.NoError(t, json.NewEncoder(w).Encode(migration.Page{ResourceVersion: "40000"}))
	}))
	defer server.Close()
	c, err := newChecker(Options{
		Config: &rest.Config{Host: server.URL}, Group: "example.com", Service: "books", Progress: func(string) {},
	})
	require.NoError(t, err)
	var lines []string
	m := &mover{checker: c, service: &owner{c, "books"}, MoveOptions: MoveOptions{Progress: func(line string) { lines = append(lines, line) }}}
	m.definitions, err = c.definitions(t.Context())
	require.NoError(t, err)
	require.NoError(t, m.checkDistance(t.Context(), 1_000_000, 1))
	assert.Equal(t, []string{"raising the resourceVersions of books from 40000 above 1000000"}, lines)
	require.ErrorContains(t, m.checkDistance(t.Context(), 1_000_000_000, 1), "--bump-revision")
	require.ErrorContains(t, m.checkDistance(t.Context(), 1_000_000, maxRaises), "--bump-revision")
}
