// Copyright The Tripod Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"fmt"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/dynamic"

	"github.com/tripod-k8s/tripod/apiservice/apitest"
	v1 "github.com/tripod-k8s/tripod/examples/storages/v1"
	"github.com/tripod-k8s/tripod/services/search/store/storetest"
)

func TestMain(m *testing.M) { os.Exit(apitest.Main(m, service())) }

func note(name string) *unstructured.Unstructured {
	n := &unstructured.Unstructured{Object: map[string]any{"spec": map[string]any{"text": name}}}
	n.SetGroupVersionKind(v1.GroupVersion.WithKind("Note"))
	n.SetName(name)
	return n
}

// next returns the name of the next note that a watch shows.
func next(t *testing.T, w watch.Interface) string {
	t.Helper()
	for {
		select {
		case event, ok := <-w.ResultChan():
			require.True(t, ok, "the watch has ended")
			if event.Type == watch.Bookmark {
				continue
			}
			object, ok := event.Object.(*unstructured.Unstructured)
			require.True(t, ok, "%v", event.Object)
			return object.GetName()
		case <-time.After(time.Minute):
			require.FailNow(t, "no event")
		}
	}
}

func TestReplicasServeTheNotesOfADatabase(t *testing.T) {
	t.Parallel()
	for _, kind := range []string{"sqlite", "postgres"} {
		t.Run(kind, func(t *testing.T) {
			t.Parallel()
			url := "sqlite:" + filepath.Join(t.TempDir(), "notes.db")
			if kind == "postgres" {
				storetest.Need(t, kind)
				server, err := storetest.StartPostgres()
				require.NoError(t, err)
				t.Cleanup(server.Stop)
				url = server.URL("postgres")
			}
			file := filepath.Join(t.TempDir(), "url")
			require.NoError(t, os.WriteFile(file, []byte(url+"\n"), 0o600))
			testReplicas(t, apitest.Options{Replicas: 2, Args: []string{"--database-file=" + file}}.Start(t, service()))
		})
	}
}

// testReplicas has clients use replicas that come and go. Each request may reach any of them.
func testReplicas(t *testing.T, api *apitest.API) {
	client, err := dynamic.NewForConfig(api.Admin())
	require.NoError(t, err)
	notes, ctx := client.Resource(v1.GroupVersion.WithResource("notes")).Namespace("default"), t.Context()
	begin, err := notes.List(ctx, metav1.ListOptions{})
	require.NoError(t, err)
	const each = 10
	var names []string
	add := func() {
		for range each {
			name := fmt.Sprintf("note-%02d", len(names))
			names = append(names, name)
			created, err := notes.Create(ctx, note(name), metav1.CreateOptions{})
			require.NoError(t, err)
			list, err := notes.List(ctx, metav1.ListOptions{})
			require.NoError(t, err)
			require.Len(t, list.Items, len(names), "a list, perhaps of another replica, has what was written")
			require.Equal(t, created.GetResourceVersion(), list.GetResourceVersion())
		}
	}
	add()
	api.Kill("notes-0")
	api.WaitReady()
	api.Kill("notes-1")
	api.WaitReady()
	add()
	w, err := notes.Watch(ctx, metav1.ListOptions{ResourceVersion: begin.GetResourceVersion()})
	require.NoError(t, err)
	defer w.Stop()
	for _, name := range names {
		assert.Equal(t, name, next(t, w), "a watch goes on from before both replicas were started")
	}
}
