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

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/dynamic"

	"github.com/tripod-k8s/tripod/apiservice"
	"github.com/tripod-k8s/tripod/apiservice/apitest"
	v1 "github.com/tripod-k8s/tripod/examples/storages/v1"
)

func TestMain(m *testing.M) { os.Exit(apitest.Main(m, service(), inEtcd())) }

// inEtcd returns the service with its objects in etcd.
func inEtcd() apiservice.Service {
	s := service()
	s.Name = "stored"
	s.Groups[0].Resources[0] = apiservice.Objects[*v1.Note]{Name: "notes", Validate: validate}
	return s
}

// answer is how a request ended.
func answer(what string, n *unstructured.Unstructured, err error) string {
	if err != nil {
		return what + ": " + string(apierrors.ReasonForError(err))
	}
	text, _, _ := unstructured.NestedString(n.Object, "spec", "text")
	return fmt.Sprintf("%s: %s generation %d deleted %t held %v", what, text, n.GetGeneration(), n.GetDeletionTimestamp() != nil, n.GetFinalizers())
}

// story is what a client does with a note that a finalizer holds, and the answers. edited is called between a deletion and its end.
func story(t *testing.T, notes dynamic.ResourceInterface, edited func()) (answers []string) {
	t.Helper()
	ctx := t.Context()
	say := func(what string, n *unstructured.Unstructured, err error) {
		answers = append(answers, answer(what, n, err))
	}
	patch := func(what, text string) {
		n, err := notes.Patch(ctx, "a", types.MergePatchType, []byte(text), metav1.PatchOptions{})
		say(what, n, err)
	}
	held := note("a", "first")
	held.SetFinalizers([]string{"example.com/hold"})
	held.SetDeletionTimestamp(new(metav1.Now()))
	n, err := notes.Create(ctx, held, metav1.CreateOptions{})
	say("create", n, err)
	patch("change", `{"spec": {"text": "second"}}`)
	patch("another UID", `{"metadata": {"uid": "other"}}`)
	require.NoError(t, notes.Delete(ctx, "a", metav1.DeleteOptions{}))
	edited()
	n, err = notes.Get(ctx, "a", metav1.GetOptions{})
	say("delete", n, err)
	patch("no deletion", `{"metadata": {"deletionTimestamp": null}}`)
	patch("another finalizer", `{"metadata": {"finalizers": ["example.com/hold", "example.com/more"]}}`)
	patch("no finalizer", `{"metadata": {"finalizers": null}}`)
	n, err = notes.Get(ctx, "a", metav1.GetOptions{})
	say("get", n, err)
	return answers
}

func TestAFileIsHeldAsAnObjectInEtcdIs(t *testing.T) {
	t.Parallel()
	directory := t.TempDir()
	clients := map[string]dynamic.ResourceInterface{}
	for name, api := range map[string]*apitest.API{
		"files": apitest.Options{Args: []string{"--directory=" + directory}}.Start(t, service()),
		"etcd":  apitest.Options{Args: []string{"--directory=" + directory}}.Start(t, inEtcd()),
	} {
		client, err := dynamic.NewForConfig(api.Admin())
		require.NoError(t, err)
		clients[name] = client.Resource(v1.GroupVersion.WithResource("notes")).Namespace("default")
	}
	want := story(t, clients["etcd"], func() {})
	assert.Contains(t, want, "delete: second generation 0 deleted true held [example.com/hold]")
	assert.Equal(t, want, story(t, clients["files"], func() {}))
	assert.Equal(t, want, story(t, clients["files"], func() {
		w, err := clients["files"].Watch(t.Context(), metav1.ListOptions{ResourceVersion: "0"})
		require.NoError(t, err)
		defer w.Stop()
		assert.Equal(t, "ADDED a second", next(t, w))
		edit(t, directory, "a", "third")
		assert.Equal(t, "MODIFIED a third", next(t, w))
		edit(t, directory, "a", "second")
		assert.Equal(t, "MODIFIED a second", next(t, w))
	}), "an editor that leaves all metadata out")
}

func note(name, text string) *unstructured.Unstructured {
	n := &unstructured.Unstructured{Object: map[string]any{"spec": map[string]any{"text": text}}}
	n.SetGroupVersionKind(v1.GroupVersion.WithKind("Note"))
	n.SetName(name)
	return n
}

// edit writes the file of a note as an editor does.
func edit(t *testing.T, directory, name, text string) {
	t.Helper()
	file := filepath.Join(directory, "notes.notes.example.com", "default", name+".yaml")
	require.NoError(t, os.MkdirAll(filepath.Dir(file), 0o700))
	content := "apiVersion: notes.example.com/v1\nkind: Note\nmetadata:\n  name: " + name + "\nspec:\n  text: \"" + text + "\"\n"
	require.NoError(t, os.WriteFile(file+"~", []byte(content), 0o600))
	require.NoError(t, os.Rename(file+"~", file))
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

func TestNotesAreFiles(t *testing.T) {
	t.Parallel()
	directory, ctx := t.TempDir(), t.Context()
	edit(t, directory, "before", "there already")
	api := apitest.Options{Args: []string{"--directory=" + directory}}.Start(t, service())
	client, err := dynamic.NewForConfig(api.Admin())
	require.NoError(t, err)
	notes := client.Resource(v1.GroupVersion.WithResource("notes")).Namespace("default")
	list, err := notes.List(ctx, metav1.ListOptions{})
	require.NoError(t, err)
	require.Len(t, list.Items, 1)
	w, err := notes.Watch(ctx, metav1.ListOptions{ResourceVersion: list.GetResourceVersion()})
	require.NoError(t, err)
	defer w.Stop()

	_, err = notes.Create(ctx, note("a", "by the API"), metav1.CreateOptions{})
	require.NoError(t, err)
	assert.Equal(t, "ADDED a by the API", next(t, w))
	content, err := os.ReadFile(filepath.Join(directory, "notes.notes.example.com", "default", "a.yaml"))
	require.NoError(t, err)
	assert.Contains(t, string(content), "text: by the API\n")
	edit(t, directory, "a", "by an editor")
	assert.Equal(t, "MODIFIED a by an editor", next(t, w))

	edit(t, directory, "a", "") // validation refuses that, in files, too
	edit(t, directory, "b", "another")
	assert.Equal(t, "ADDED b another", next(t, w))
	kept, err := notes.Get(ctx, "a", metav1.GetOptions{})
	require.NoError(t, err)
	text, _, _ := unstructured.NestedString(kept.Object, "spec", "text")
	assert.Equal(t, "by an editor", text)
	require.NoError(t, os.Remove(filepath.Join(directory, "notes.notes.example.com", "default", "a.yaml")))
	assert.Equal(t, "DELETED a by an editor", next(t, w))
}

func TestNotesOutlastAReplica(t *testing.T) {
	t.Parallel()
	api := apitest.Options{Args: []string{"--directory=" + t.TempDir()}}.Start(t, service())
	client, err := dynamic.NewForConfig(api.Admin())
	require.NoError(t, err)
	notes, ctx := client.Resource(v1.GroupVersion.WithResource("notes")).Namespace("default"), t.Context()
	before, err := notes.Create(ctx, note("a", "kept"), metav1.CreateOptions{})
	require.NoError(t, err)
	api.Kill("notes-0")
	api.WaitReady()
	after, err := notes.Get(ctx, "a", metav1.GetOptions{})
	require.NoError(t, err)
	assert.Equal(t, before.GetUID(), after.GetUID())
	after.SetResourceVersion(before.GetResourceVersion())
	_, err = notes.Update(ctx, after, metav1.UpdateOptions{})
	assert.True(t, apierrors.IsConflict(err), "an update of what another process has served: %v", err)
}
