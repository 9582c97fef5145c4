// Copyright The Tripod Authors.
// SPDX-License-Identifier: Apache-2.0

package server

import (
	"encoding/json"
	"net/http"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	corev1 "k8s.io/api/core/v1"

	"github.com/tripod-k8s/tripod/services/search/store"
)

func TestASearchReturnsTheEventsOfItsObjects(t *testing.T) {
	s := newStore(t)
	stream, err := s.OpenStream(t.Context(), "west", store.InvolvedEvents)
	require.NoError(t, err)
	change := func(name string, seen int64) store.Change {
		return store.Change{Object: store.Object{
			Namespace: "default", Name: name, UID: name, JSON: []byte(`{"kind": "Event", "apiVersion": "v1", "metadata": {"name": "` + name + `"}, "reason": "Said \"so\""}`),
			Involved: &store.Involved{Kind: "Pod", Namespace: "default", Name: "web-1", UID: "web-1", SeenAt: seen},
		}}
	}
	require.NoError(t, s.Write(t.Context(), stream, store.Batch{Changes: []store.Change{change("first", 1), change("second", 2)}}))
	h := NewHandler(s, nil, http.NotFoundHandler())
	for path, want := range map[string][]string{
		"resources/api/v1/pods": nil, "resources/api/v1/pods?injectEvents=true": {"second", "first"},
		"resources/clusters/west/api/v1/pods?labelSelector=search.clusterpedia.io/inject-events=true": {"second", "first"},
	} {
		answer, _ := ask(t, h, http.MethodGet, path, "")
		var pods corev1.PodList
		require.NoError(t, json.Unmarshal(answer.Body.Bytes(), &pods), "%s", answer.Body)
		require.Len(t, pods.Items, 2)
		assert.Equal(t, "west", pods.Items[0].Annotations[store.ClusterAnnotation])
		assert.NotContains(t, pods.Items[1].Annotations, eventsAnnotation, "nobody has said anything about it")
		var events []corev1.Event
		if text, has := pods.Items[0].Annotations[eventsAnnotation]; has {
			require.NoError(t, json.Unmarshal([]byte(text), &events))
		}
		var names []string
		for _, event := range events {
			names = append(names, event.Name)
			assert.Equal(t, `Said "so"`, event.Reason)
		}
		assert.Equal(t, want, names)
	}
}
