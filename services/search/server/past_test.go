// Copyright The Tripod Authors.
// SPDX-License-Identifier: Apache-2.0

package server

import (
	"encoding/json"
	"net/http"
	"net/url"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/tripod-k8s/tripod/services/search/apis/search/v1beta1"
)

const deploymentsPath = "resources/apis/apps/v1/deployments"

func TestWhatThereWas(t *testing.T) {
	s, write := opened(t)
	h := NewHandler(s, nil, http.NotFoundHandler())
	write(change("a", "x", "1", map[string]string{"x": "1"}))                                                     // 11
	write(change("a", "x", "2", map[string]string{"x": "2"}), change("a", "y", "1", map[string]string{"x": "1"})) // 12, 13
	write(deleted(change("a", "x", "3", nil)))                                                                    // 14
	for parameters, want := range map[string][]string{
		"namespaces=a":        {"east/y"},
		"namespaces=a&at=now": {"east/y"},
		"namespaces=a&at=10":  nil,
		"namespaces=a&at=11":  {"east/x"},
		"namespaces=a&at=13":  {"east/x", "east/y"},
		"namespaces=a&resourceVersion=13&resourceVersionMatch=Exact": {"east/x", "east/y"},
		"labelSelector=x%3D1&at=11":                                  {"east/x"},
		"labelSelector=x%3D1&at=12":                                  nil,
		"labelSelector=search.clusterpedia.io/at%3D12,x":             {"east/x"},
		"differsFrom=11":                                             {"east/y"},
		"at=11&differsFrom=now":                                      {"east/x"},
		"at=11&differsFrom=11":                                       nil,
		"at=13&differsFrom=12":                                       {"east/y"},
	} {
		answer, _ := ask(t, h, http.MethodGet, deploymentsPath+"?"+parameters, "")
		names, _ := namesIn(t, answer)
		assert.Equal(t, want, names, parameters)
	}
	for parameters, code := range map[string]int{"at=99": http.StatusGatewayTimeout, "differsFrom=99": http.StatusBadRequest, "at=soon": http.StatusBadRequest,
		"at=1h": http.StatusGone, "differsFrom=1h": http.StatusGone} {
		answer, _ := ask(t, h, http.MethodGet, deploymentsPath+"?"+parameters, "")
		assert.Equal(t, code, answer.Code, "%s: %s", parameters, answer.Body)
	}

	const x = "resources/clusters/east/apis/apps/v1/namespaces/a/deployments/x"
	for parameters, code := range map[string]int{"": 404, "?at=10": 404, "?at=11": 200, "?at=13": 200, "?at=14": 404, "?at=1h": 410, "?at=99": 400, "?at=soon": 400} {
		answer, _ := ask(t, h, http.MethodGet, x+parameters, "")
		assert.Equal(t, code, answer.Code, "%s: %s", parameters, answer.Body)
	}
	answer, _ := ask(t, h, http.MethodGet, x+"?at=11", "")
	assert.Contains(t, answer.Body.String(), `"resourceVersion":"11"`)

	_, err := s.Prune(t.Context(), time.Now().Add(time.Hour))
	require.NoError(t, err)
	for _, path := range []string{deploymentsPath + "?at=13", deploymentsPath + "?at=1h", deploymentsPath + "?differsFrom=13", x + "?at=13"} {
		answer, _ := ask(t, h, http.MethodGet, path, "")
		assert.Equal(t, http.StatusGone, answer.Code, path)
		assert.Regexp(t, `too old resource version: the history begins at 2.*, with resourceVersion 14`, answer.Body.String())
	}
}

func TestObjectsThatDifferSaySinceWhen(t *testing.T) {
	s, write := opened(t)
	write(change("a", "x", "1", nil))
	write(change("a", "x", "2", nil))
	for _, parameters := range []string{"differsFrom=10", "at=11&differsFrom=12"} {
		answer, _ := ask(t, NewHandler(s, nil, nil), http.MethodGet, deploymentsPath+"?"+parameters, "")
		_, list := namesIn(t, answer)
		require.Len(t, list.Items, 1)
		at, err := time.Parse(time.RFC3339, list.Items[0].Annotations[v1beta1.ChangedAtAnnotation])
		require.NoError(t, err)
		assert.WithinDuration(t, time.Now(), at, time.Minute)
	}
}

// TestPagesOfACollectionAreOfOneRevision holds that a page shows what the first one was of, and that tokens of other lists are refused.
func TestPagesOfACollectionAreOfOneRevision(t *testing.T) {
	s, write := opened(t)
	page := func(values url.Values) *v1beta1.CollectionResource {
		collection, err := collectionOf(t, NewHandler(s, nil, nil), anyCollection, values.Encode())
		require.NoError(t, err)
		return collection
	}
	values := url.Values{"groups": {"*"}, "limit": {"2"}, "withContinue": {"true"}}
	var names []string
	for {
		answer := page(values)
		assert.Equal(t, "10", answer.ResourceVersion)
		assert.EqualValues(t, 6-len(names)-len(answer.Items), *answer.RemainingItemCount)
		for _, item := range answer.Items {
			var one metav1.PartialObjectMetadata
			require.NoError(t, json.Unmarshal(item.Raw, &one))
			names = append(names, one.Annotations[v1beta1.ClusterAnnotation]+"/"+one.Name)
		}
		if answer.Continue == "" {
			break
		}
		values.Set("continue", answer.Continue)
		write(change("a", "new", "1", nil), deleted(change("default", "web", "2", nil)))
	}
	assert.Equal(t, []string{"east/db", "east/web", "west/web", "west/web-1", "west/web-2", "west/n"}, names)

	h := NewHandler(s, nil, nil)
	answer, _ := ask(t, h, http.MethodGet, "resources/api/v1/nodes?limit=1&withContinue=true&continue="+values.Get("continue"), "")
	assert.Equal(t, http.StatusBadRequest, answer.Code)
	assert.Contains(t, answer.Body.String(), "the token is not one of this list")
	_, err := s.Prune(t.Context(), time.Now().Add(time.Hour))
	require.NoError(t, err)
	answer, _ = ask(t, h, http.MethodGet, deploymentsPath+"?limit=1&continue="+values.Get("continue"), "")
	assert.Equal(t, http.StatusGone, answer.Code)
}
