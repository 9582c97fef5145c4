// Copyright The Tripod Authors.
// SPDX-License-Identifier: Apache-2.0

package server

import (
	"encoding/json"
	"net/http"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/tripod-k8s/tripod/services/search/apis/search/v1beta1"
	"github.com/tripod-k8s/tripod/services/search/store"
	"github.com/tripod-k8s/tripod/services/search/store/streams"
)

func TestASearchReturnsTheEventsOfItsObjects(t *testing.T) {
	s := newStore(t)
	stream, err := s.OpenStream(t.Context(), "west", streams.InvolvedEvents)
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
		assert.Equal(t, "west", pods.Items[0].Annotations[v1beta1.ClusterAnnotation])
		assert.NotContains(t, pods.Items[1].Annotations, eventsAnnotation, "it has no events")
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

func TestInjectedEventsTakeTheMemoryOfAnswers(t *testing.T) {
	events := [][]byte{[]byte(`{"message":"<\"&\n>"}`), []byte(`{"message":"` + strings.Repeat("<", 1000) + `"}`)}
	for object, want := range map[string]string{
		`{"metadata":{"name":"a"}}`: "", `{"metadata":{"annotations":{}}}`: "", `{"metadata":{"annotations":{"b":"c"}},"spec":{}}`: "c",
		`{"metadata":{"annotations":{"b":"c","` + eventsAnnotation + `":"a lie"}}}`: "c",
	} {
		memory := newBudget(1 << 20).hold(t.Context())
		with, err := withEvents([]byte(object), events, memory)
		require.NoError(t, err)
		assert.Less(t, len(with), 3*1100, "no escapes that JSON does not need")
		var decoded metav1.PartialObjectMetadata
		require.NoError(t, json.Unmarshal(with, &decoded))
		assert.Equal(t, want, decoded.Annotations["b"])
		assert.JSONEq(t, "["+string(events[0])+","+string(events[1])+"]", decoded.Annotations[eventsAnnotation])
		assert.GreaterOrEqual(t, memory.bytes, int64(len(with)-len(object)))

		_, err = withEvents([]byte(object), events, newBudget(1000).hold(t.Context()))
		assert.True(t, apierrors.IsRequestEntityTooLargeError(err), err)
	}
}
