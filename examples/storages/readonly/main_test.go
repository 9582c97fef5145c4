// Copyright The Tripod Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/dynamic"

	"github.com/tripod-k8s/tripod/apiservice/apitest"
	v1 "github.com/tripod-k8s/tripod/examples/storages/v1"
)

func TestMain(m *testing.M) { os.Exit(apitest.Main(m, service())) }

// replace replaces the file at once, so that no poll reads a half of it.
func replace(t *testing.T, file, content string) {
	t.Helper()
	require.NoError(t, os.WriteFile(file+".new", []byte(content), 0o600))
	require.NoError(t, os.Rename(file+".new", file))
}

// next returns the type, name and text of the next event that is no bookmark.
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
			text, _, _ := unstructured.NestedString(object.Object, "spec", "text")
			return string(event.Type) + " " + object.GetName() + " " + text
		case <-time.After(time.Minute):
			require.FailNow(t, "no event")
		}
	}
}

func TestClientsReadAndWatchTheFile(t *testing.T) {
	t.Parallel()
	file, ctx := filepath.Join(t.TempDir(), "notes"), t.Context()
	replace(t, file, "a=one\nb=two\n")
	api := apitest.Options{Args: []string{"--file=" + file}}.Start(t, service())
	client, err := dynamic.NewForConfig(api.Admin())
	require.NoError(t, err)
	notes := client.Resource(v1.GroupVersion.WithResource("notes"))
	list, err := notes.List(ctx, metav1.ListOptions{})
	require.NoError(t, err)
	require.Len(t, list.Items, 2)
	selected, err := notes.List(ctx, metav1.ListOptions{FieldSelector: "metadata.name=b"})
	require.NoError(t, err)
	require.Len(t, selected.Items, 1)
	_, err = notes.Get(ctx, "none", metav1.GetOptions{})
	assert.True(t, apierrors.IsNotFound(err), "%v", err)

	w, err := notes.Watch(ctx, metav1.ListOptions{ResourceVersion: list.GetResourceVersion()})
	require.NoError(t, err)
	defer w.Stop()
	replace(t, file, "b=changed\n")
	assert.Equal(t, "DELETED a one", next(t, w))
	assert.Equal(t, "MODIFIED b changed", next(t, w))
	// A file that cannot be read removes nothing.
	replace(t, file, "wrong\n")
	replace(t, file, "b=changed\nc=three\n")
	assert.Equal(t, "ADDED c three", next(t, w))

	_, err = notes.Create(ctx, &unstructured.Unstructured{Object: map[string]any{
		"apiVersion": "notes.example.com/v1", "kind": "Note", "metadata": map[string]any{"name": "d"},
	}}, metav1.CreateOptions{})
	assert.True(t, apierrors.IsMethodNotSupported(err), "%v", err)
}
