// Copyright The Tripod Authors.
// SPDX-License-Identifier: Apache-2.0

package server

import (
	"encoding/json"
	"fmt"
	"net/http"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/tripod-k8s/tripod/services/search/store"
	"github.com/tripod-k8s/tripod/services/search/store/streams"
)

// putObject writes an object of a kind, as a cluster has it.
func putObject(t *testing.T, s *store.Store, cluster string, kind streams.Kind, namespace, name string) {
	t.Helper()
	stream, err := s.OpenStream(t.Context(), cluster, kind)
	require.NoError(t, err)
	apiVersion, kindName := kind.GroupVersionKind().ToAPIVersionAndKind()
	text := fmt.Sprintf(`{"apiVersion":%q,"kind":%q,"metadata":{"name":%q,"namespace":%q,"annotations":{"shadow.clusterpedia.io/cluster-name":%q}}}`,
		apiVersion, kindName, name, namespace, cluster)
	require.NoError(t, s.Write(t.Context(), stream, store.Batch{Changes: []store.Change{{Object: store.Object{Namespace: namespace, Name: name, JSON: []byte(text)}}}}))
}

func TestClustersWithDifferentScopesAnswerForThemselves(t *testing.T) {
	s := newStore(t)
	resource := schema.GroupVersionResource{Group: "example.com", Version: "v1", Resource: "things"}
	putObject(t, s, "a", streams.Kind{GroupVersionResource: resource, Name: "Thing", Namespaced: true}, "default", "one")
	putObject(t, s, "b", streams.Kind{GroupVersionResource: resource, Name: "Thing", Namespaced: true}, "default", "two")
	putObject(t, s, "liar", streams.Kind{GroupVersionResource: resource, Name: "Odd"}, "", "three")
	h := NewHandler(s, nil, nil)
	for path, want := range map[string][]string{
		"resources/apis/example.com/v1/namespaces/default/things":            {"a/one", "b/two"},
		"resources/apis/example.com/v1/things":                               {"liar/three", "a/one", "b/two"},
		"resources/clusters/a/apis/example.com/v1/namespaces/default/things": {"a/one"},
		"resources/clusters/liar/apis/example.com/v1/things":                 {"liar/three"},
	} {
		answer, _ := ask(t, h, http.MethodGet, path, "")
		require.Equal(t, http.StatusOK, answer.Code, path)
		names, _ := namesIn(t, answer)
		assert.Equal(t, want, names, path)
		for _, as := range []string{"Table", "PartialObjectMetadataList"} {
			answer, _ = ask(t, h, http.MethodGet, path, "application/json;as="+as+";g=meta.k8s.io;v=v1")
			assert.True(t, json.Valid(answer.Body.Bytes()), "%s as %s", path, as)
			assert.Equal(t, http.StatusOK, answer.Code)
		}
	}
	answer, _ := ask(t, h, http.MethodGet, "resources/apis/example.com/v1/things", "")
	assert.Contains(t, answer.Body.String(), `{"kind":"ThingList","apiVersion":"example.com/v1"`)
	assert.Contains(t, answer.Body.String(), `"kind":"Odd"`, "each object has its own kind")
	answer, _ = ask(t, h, http.MethodGet, "resources/clusters/liar/apis/example.com/v1/namespaces/default/things", "")
	assert.Equal(t, http.StatusNotFound, answer.Code)

	for path, want := range map[string]metav1.APIResource{
		"resources/apis/example.com/v1":               {Name: "things", Kind: "Thing", Namespaced: true, Verbs: verbs},
		"resources/clusters/liar/apis/example.com/v1": {Name: "things", Kind: "Odd", Verbs: verbs},
	} {
		var list metav1.APIResourceList
		answer, _ = ask(t, h, http.MethodGet, path, "")
		require.NoError(t, json.Unmarshal(answer.Body.Bytes(), &list))
		assert.Equal(t, []metav1.APIResource{want}, list.APIResources, path)
	}
}

func TestANamespaceCanBeRead(t *testing.T) {
	s := newStore(t)
	namespaces := streams.Kind{GroupVersionResource: schema.GroupVersionResource{Version: "v1", Resource: "namespaces"}, Name: "Namespace"}
	putObject(t, s, "a", namespaces, "", "default")
	putObject(t, s, "a", namespaces, "", "other")
	h := NewHandler(s, nil, nil)
	answer, _ := ask(t, h, http.MethodGet, "resources/clusters/a/api/v1/namespaces/default", "")
	assert.Equal(t, http.StatusOK, answer.Code)
	assert.Contains(t, answer.Body.String(), `"name":"default"`)
	answer, _ = ask(t, h, http.MethodGet, "resources/clusters/a/api/v1/namespaces/missing", "")
	assert.Equal(t, http.StatusNotFound, answer.Code)
	assert.Contains(t, answer.Body.String(), `namespaces \"missing\" not found`)
	answer, _ = ask(t, h, http.MethodGet, "resources/clusters/a/api/v1/namespaces?fieldSelector=metadata.name%3Ddefault", "")
	names, _ := namesIn(t, answer)
	assert.Equal(t, []string{"a/default"}, names)
}
