// Copyright The Tripod Authors.
// SPDX-License-Identifier: Apache-2.0

package server

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/tripod-k8s/tripod/services/search/apis/search/v1beta1"
	"github.com/tripod-k8s/tripod/services/search/store"
)

// change returns a change of an object of cluster east, with labels.
func change(namespace, name, version string, labels map[string]string) store.Change {
	return changeIn("east", namespace, name, version, labels)
}

func changeIn(cluster, namespace, name, version string, labels map[string]string) store.Change {
	text, _ := json.Marshal(map[string]any{ // strings can be marshalled
		"apiVersion": "apps/v1", "kind": "Deployment", "spec": map[string]any{"x": labels["x"]},
		"metadata": map[string]any{
			"namespace": namespace, "name": name, "uid": "uid-" + name, "labels": labels, "annotations": map[string]string{v1beta1.ClusterAnnotation: cluster},
		},
	})
	return store.Change{Object: store.Object{Namespace: namespace, Name: name, UID: "uid-" + name, ResourceVersion: version, Labels: labels, JSON: text}}
}

func deleted(c store.Change) store.Change {
	c.Deleted = true
	return c
}

// server returns the address of a server that asks a handler.
func serverOf(t *testing.T, h http.Handler) string {
	t.Helper()
	server := httptest.NewServer(forAdministrator(h))
	t.Cleanup(server.Close)
	return server.URL + "/apis/clusterpedia.io/v1beta1/"
}

// forAdministrator has all requests come from a user who may see everything.
func forAdministrator(h http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, req *http.Request) {
		h.ServeHTTP(w, byAdministrator(req))
	})
}

// event is an event of a watch.
type event struct {
	Type   string
	Object struct {
		metav1.PartialObjectMetadata
		Code    int
		Message string
	}
}

// String returns "TYPE NAME REVISION".
func (e event) String() string {
	return strings.TrimSpace(fmt.Sprintf("%s %s %s", e.Type, e.Object.Name, e.Object.ResourceVersion))
}

// open begins a watch. next returns its next event, and nil at its end.
func open(t *testing.T, location, accept string) (next func() *event) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	t.Cleanup(cancel)
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, location, nil)
	require.NoError(t, err)
	req.Header.Set("Accept", accept)
	answer, err := http.DefaultClient.Do(req)
	require.NoError(t, err)
	t.Cleanup(func() { answer.Body.Close() })
	require.Equal(t, http.StatusOK, answer.StatusCode)
	require.Equal(t, "application/json", answer.Header.Get("Content-Type"))
	decoder := json.NewDecoder(answer.Body)
	return func() *event {
		var e event
		if err := decoder.Decode(&e); err != nil {
			require.NoError(t, ctx.Err(), "the watch says nothing")
			return nil
		}
		return &e
	}
}

// take returns the next events.
func take(t *testing.T, next func() *event, n int) (events []string) {
	t.Helper()
	for range n {
		e := next()
		require.NotNil(t, e, "the watch has ended after %v", events)
		events = append(events, e.String())
	}
	return events
}

const watchedPath = "resources/apis/apps/v1/deployments?watch=true"

// opened returns a store, and a function that writes to its deployments in cluster east. newStore has made 10 revisions.
func opened(t *testing.T) (s *store.Store, write func(...store.Change)) {
	t.Helper()
	s = newStore(t)
	stream, err := s.OpenStream(t.Context(), "east", kinds["D"])
	require.NoError(t, err)
	return s, func(changes ...store.Change) {
		t.Helper()
		require.NoError(t, s.Write(t.Context(), stream, store.Batch{Changes: changes}))
	}
}

func TestAWatchGoesOnAfterARevision(t *testing.T) {
	s, write := opened(t)
	at := serverOf(t, NewHandler(s, nil, nil)) + watchedPath
	write(change("a", "x", "1", nil), change("a", "y", "2", nil))          // 11, 12
	write(change("a", "x", "3", nil), deleted(change("a", "y", "4", nil))) // 13, 14
	all := []string{"ADDED x 11", "ADDED y 12", "MODIFIED x 13", "DELETED y 14"}
	first := open(t, at+"&resourceVersion=10", "")
	assert.Equal(t, all, take(t, first, 4))
	second := open(t, at+"&resourceVersion=12", "")
	assert.Equal(t, all[2:], take(t, second, 2))
	write(change("a", "z", "5", nil)) // 15
	for _, next := range []func() *event{first, second} {
		assert.Equal(t, []string{"ADDED z 15"}, take(t, next, 1))
	}
	assert.Equal(t, []string{"MODIFIED x 13", "DELETED y 14", "ADDED z 15"}, take(t, open(t, at+"&resourceVersion=12", ""), 3), "from memory as from the database")
}

func TestAWatchMayBeginWithWhatThereIs(t *testing.T) {
	s, write := opened(t)
	at := serverOf(t, NewHandler(s, nil, nil)) + watchedPath
	const streaming = "&sendInitialEvents=true&resourceVersionMatch=NotOlderThan&allowWatchBookmarks=true"
	for _, parameters := range []string{"", "&resourceVersion=0", streaming, streaming + "&resourceVersion=7"} {
		next := open(t, at+parameters+"&clusters=east", "")
		assert.Equal(t, []string{"ADDED db 2", "ADDED web 1"}, take(t, next, 2), parameters)
		if strings.HasPrefix(parameters, streaming) {
			end := next()
			assert.Equal(t, "BOOKMARK  10", end.String())
			assert.Equal(t, "true", end.Object.Annotations[metav1.InitialEventsAnnotationKey])
			assert.Equal(t, "Deployment", end.Object.Kind)
		}
	}
	fromNow := open(t, at+"&sendInitialEvents=false&resourceVersionMatch=NotOlderThan", "")
	write(change("a", "x", "1", nil))
	assert.Equal(t, []string{"ADDED x 11"}, take(t, fromNow, 1))
}

func TestAnObjectEntersAndLeavesASelection(t *testing.T) {
	s, write := opened(t)
	at := serverOf(t, NewHandler(s, nil, nil)) + watchedPath + "&resourceVersion=10"
	byLabel, byField := open(t, at+"&labelSelector=x%3D1", ""), open(t, at+"&fieldSelector=spec.x%3D1", "")
	elsewhere := open(t, at+"&labelSelector=search.clusterpedia.io/clusters+notin+(east)", "")
	write(change("a", "x", "1", nil))                                                // 11
	write(change("a", "x", "2", map[string]string{"x": "1"}))                        // 12
	write(change("a", "x", "3", map[string]string{"x": "1", "y": "1"}))              // 13
	write(change("a", "x", "4", map[string]string{"x": "2"}))                        // 14
	write(change("a", "x", "5", map[string]string{"x": "1"}))                        // 15
	write(deleted(change("a", "x", "6", nil)), deleted(change("a", "db", "1", nil))) // 16
	want := []string{"ADDED x 12", "MODIFIED x 13", "DELETED x 14", "ADDED x 15", "DELETED x 16"}
	assert.Equal(t, want, take(t, byLabel, 5))
	assert.Equal(t, want, take(t, byField, 5))
	stream, err := s.OpenStream(t.Context(), "west", kinds["D"])
	require.NoError(t, err)
	require.NoError(t, s.Write(t.Context(), stream, store.Batch{Changes: []store.Change{change("a", "w", "1", nil)}})) // 18
	assert.Equal(t, []string{"ADDED w 18"}, take(t, elsewhere, 1))
}

func TestFormsOfWatches(t *testing.T) {
	s, write := opened(t)
	at := serverOf(t, NewHandler(s, nil, nil)) + watchedPath + "&resourceVersion=10"
	write(change("a", "x", "1", nil), change("a", "y", "1", nil))
	read := func(accept string) []map[string]any {
		req, err := http.NewRequestWithContext(t.Context(), http.MethodGet, at, nil)
		require.NoError(t, err)
		req.Header.Set("Accept", accept)
		answer, err := http.DefaultClient.Do(req)
		require.NoError(t, err)
		defer answer.Body.Close()
		decoder := json.NewDecoder(answer.Body)
		var events []map[string]any
		for range 2 {
			var e struct{ Object map[string]any }
			require.NoError(t, decoder.Decode(&e))
			events = append(events, e.Object)
		}
		return events
	}
	tables := read("application/json;as=Table;v=v1;g=meta.k8s.io,application/json")
	assert.Equal(t, "Table", tables[0]["kind"])
	assert.NotEmpty(t, tables[0]["columnDefinitions"])
	assert.Empty(t, tables[1]["columnDefinitions"], "only the first has headers")
	assert.Equal(t, []any{"east", "y"}, tables[1]["rows"].([]any)[0].(map[string]any)["cells"].([]any)[:2])
	for _, object := range read("application/json;as=PartialObjectMetadata;v=v1;g=meta.k8s.io,application/json") {
		assert.Equal(t, "PartialObjectMetadata", object["kind"])
		assert.NotContains(t, object, "spec")
	}
}

func TestAWatchEndsInItsTimeWithABookmark(t *testing.T) {
	s, write := opened(t)
	at := serverOf(t, NewHandler(s, nil, nil)) + watchedPath + "&resourceVersion=10&clusters=west&timeoutSeconds=1"
	write(change("a", "x", "1", nil))
	next := open(t, at+"&allowWatchBookmarks=true", "")
	assert.Equal(t, []string{"BOOKMARK  11"}, take(t, next, 1))
	assert.Nil(t, next())
	assert.Nil(t, open(t, at, "")(), "no bookmark that nobody has asked for")
}

// TestAWatchWhoseTimeIsOverBlamesNoDatabase holds for watches that get no slot before their timeoutSeconds are over.
func TestAWatchWhoseTimeIsOverBlamesNoDatabase(t *testing.T) {
	s, _ := opened(t)
	h := NewHandler(s, nil, nil)
	for range searchesOfUser {
		release, err := h.searches.acquire(asAdministrator(t.Context()), time.Minute)
		require.NoError(t, err)
		defer release()
	}
	answer, err := http.Get(serverOf(t, h) + watchedPath + "&timeoutSeconds=1")
	require.NoError(t, err)
	defer answer.Body.Close()
	text, err := io.ReadAll(answer.Body)
	require.NoError(t, err)
	assert.Equal(t, http.StatusGatewayTimeout, answer.StatusCode, "%s", text)
	assert.Contains(t, string(text), "the time of the request was over")
}

func TestWatchesThatCannotBeServed(t *testing.T) {
	s, write := opened(t)
	write(change("a", "x", "1", nil))
	h := NewHandler(s, nil, nil)
	for parameters, want := range map[string]struct {
		code int
		text string
	}{
		"&resourceVersion=12":            {504, `"reason":"ResourceVersionTooLarge","message":"Too large resource version"`},
		"&resourceVersion=abc":           {400, "is not a number"},
		"&ownerName=web":                 {400, "owners can be given by UID only"},
		"&ownerUID=web&ownerSeniority=1": {400, "owners can be given by UID only"},
		"&orderby=name":                  {400, "orderby is not possible"},
		"&continue=5":                    {400, "continue and offset are not possible"},
		"&at=5":                          {400, "at and differsFrom are not possible"},
		"&injectEvents=true":             {400, "injectEvents is not possible"},
		"&sendInitialEvents=true":        {422, "sendInitialEvents"},
		"&sendInitialEvents=true&timeoutSeconds=soon": {400, "soon"},
		"&cluster=east": {400, "parameter cluster is unknown"},
	} {
		answer, _ := ask(t, h, http.MethodGet, watchedPath+parameters, "")
		assert.Equal(t, want.code, answer.Code, parameters)
		assert.Contains(t, answer.Body.String(), want.text, parameters)
	}
	answer, _ := ask(t, h, http.MethodGet, "resources/clusters/north/apis/apps/v1/deployments?watch=true", "")
	assert.Equal(t, http.StatusNotFound, answer.Code)
	answer, _ = ask(t, h, http.MethodGet, watchedPath, "application/vnd.kubernetes.protobuf")
	assert.Equal(t, http.StatusNotAcceptable, answer.Code)

	more, err := s.Prune(t.Context(), time.Now().Add(time.Hour))
	require.NoError(t, err)
	require.False(t, more)
	answer, _ = ask(t, h, http.MethodGet, watchedPath+"&resourceVersion=10", "")
	assert.Equal(t, http.StatusGone, answer.Code)
	assert.Contains(t, answer.Body.String(), `"reason":"Expired"`)
	assert.Contains(t, answer.Body.String(), "too old resource version")
	s.Close()
	answer, _ = ask(t, h, http.MethodGet, watchedPath+"&resourceVersion=11", "")
	assert.Equal(t, http.StatusServiceUnavailable, answer.Code)
}
