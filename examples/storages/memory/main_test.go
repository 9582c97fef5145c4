// Copyright The Tripod Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"encoding/json"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/discovery"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/rest"

	"github.com/tripod-k8s/tripod/apiservice/apitest"
	v1 "github.com/tripod-k8s/tripod/examples/storages/v1"
)

func TestMain(m *testing.M) { os.Exit(apitest.Main(m, service())) }

// notes returns a client of the notes in the namespace default.
func notes(t *testing.T) dynamic.ResourceInterface {
	t.Helper()
	client, err := dynamic.NewForConfig(apitest.Start(t, service()).Admin())
	require.NoError(t, err)
	return client.Resource(v1.GroupVersion.WithResource("notes")).Namespace("default")
}

func note(name, text string) *unstructured.Unstructured {
	n := &unstructured.Unstructured{Object: map[string]any{"spec": map[string]any{"text": text}}}
	n.SetGroupVersionKind(v1.GroupVersion.WithKind("Note"))
	n.SetName(name)
	return n
}

func textOf(t *testing.T, n *unstructured.Unstructured) string {
	t.Helper()
	text, _, err := unstructured.NestedString(n.Object, "spec", "text")
	require.NoError(t, err)
	return text
}

// next returns the next event that is no bookmark.
func next(t *testing.T, w watch.Interface) (watch.EventType, *unstructured.Unstructured) {
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
			return event.Type, object
		case <-time.After(time.Minute):
			require.FailNow(t, "no event")
		}
	}
}

func TestNotesBehaveAsObjectsInEtcdDo(t *testing.T) {
	t.Parallel()
	mine, ctx := notes(t), t.Context()
	created, err := mine.Create(ctx, note("a", "first"), metav1.CreateOptions{})
	require.NoError(t, err)
	_, err = mine.Create(ctx, note("a", "again"), metav1.CreateOptions{})
	assert.True(t, apierrors.IsAlreadyExists(err), "%v", err)
	_, err = mine.Create(ctx, note("b", ""), metav1.CreateOptions{})
	assert.True(t, apierrors.IsInvalid(err), "%v", err)
	_, err = mine.Create(ctx, note("b", "dry"), metav1.CreateOptions{DryRun: []string{metav1.DryRunAll}})
	require.NoError(t, err)
	strict := note("b", "strict")
	strict.Object["speck"] = "typo"
	_, err = mine.Create(ctx, strict, metav1.CreateOptions{FieldValidation: metav1.FieldValidationStrict})
	assert.True(t, apierrors.IsBadRequest(err), "%v", err)

	w, err := mine.Watch(ctx, metav1.ListOptions{ResourceVersion: created.GetResourceVersion()})
	require.NoError(t, err)
	defer w.Stop()
	applied, err := mine.Apply(ctx, "a", note("a", "applied"), metav1.ApplyOptions{FieldManager: "test", Force: true})
	require.NoError(t, err)
	kind, event := next(t, w)
	assert.Equal(t, watch.Modified, kind)
	assert.Equal(t, applied.GetResourceVersion(), event.GetResourceVersion())

	created.SetLabels(map[string]string{"old": "yes"})
	_, err = mine.Update(ctx, created, metav1.UpdateOptions{})
	assert.True(t, apierrors.IsConflict(err), "an update of an old resourceVersion: %v", err)
	other := types.UID("other")
	err = mine.Delete(ctx, "a", metav1.DeleteOptions{Preconditions: &metav1.Preconditions{UID: &other}})
	assert.True(t, apierrors.IsConflict(err), "a deletion of another object: %v", err)
}

// The limits are comments of the type Note.
func TestLimitsAreInOpenAPIAndHold(t *testing.T) {
	t.Parallel()
	api := apitest.Start(t, service())
	client, err := dynamic.NewForConfig(api.Admin())
	require.NoError(t, err)
	mine, ctx := client.Resource(v1.GroupVersion.WithResource("notes")).Namespace("default"), t.Context()
	schemas, err := discovery.NewDiscoveryClientForConfig(api.Admin())
	require.NoError(t, err)
	document, err := schemas.RESTClient().Get().AbsPath("/openapi/v3/apis/notes.example.com/v1").Do(ctx).Raw()
	require.NoError(t, err)
	var served struct {
		Components struct {
			Schemas map[string]struct {
				Properties map[string]map[string]any
			}
		}
	}
	require.NoError(t, json.Unmarshal(document, &served))
	properties := served.Components.Schemas["com.example.notes.v1.NoteSpec"].Properties
	for name, limits := range map[string]map[string]any{
		"priority": {"minimum": 1.0, "maximum": 5.0},
		"paper":    {"enum": []any{"white", "yellow"}},
		"place":    {"pattern": "^[a-z]+(/[a-z]+)*$"},
	} {
		assert.Subset(t, properties[name], limits, name)
	}

	for name, test := range map[string]struct {
		field string
		value any
		wrong string
	}{
		"priority": {"priority", int64(6), "spec.priority: Invalid value: 6: spec.priority in body should be less than or equal to 5"},
		"paper":    {"paper", "red", `spec.paper: Unsupported value: "red": supported values: "white", "yellow"`},
		"place":    {"place", "Kitchen", `spec.place: Invalid value: "Kitchen": spec.place in body should match '^[a-z]+(/[a-z]+)*$'`},
	} {
		n := note(name, "text")
		require.NoError(t, unstructured.SetNestedField(n.Object, test.value, "spec", test.field))
		_, err := mine.Create(ctx, n, metav1.CreateOptions{})
		assert.True(t, apierrors.IsInvalid(err), "%v", err)
		require.ErrorContains(t, err, test.wrong)
	}
	within := note("within", "text")
	within.Object["spec"] = map[string]any{"text": "text", "priority": int64(5), "paper": "white", "place": "kitchen/fridge"}
	_, err = mine.Create(ctx, within, metav1.CreateOptions{FieldValidation: metav1.FieldValidationStrict})
	require.NoError(t, err)
	_, err = mine.Patch(ctx, "within", types.MergePatchType, []byte(`{"spec": {"priority": -1}}`), metav1.PatchOptions{})
	assert.True(t, apierrors.IsInvalid(err), "%v", err)
}

// warnings collects what the API warns of.
type warnings struct{ texts []string }

func (w *warnings) HandleWarningHeader(_ int, _, text string) { w.texts = append(w.texts, text) }

func TestNotesAreSelectedByFieldAndWarnedOf(t *testing.T) {
	t.Parallel()
	config, seen := rest.CopyConfig(apitest.Start(t, service()).Admin()), &warnings{}
	config.WarningHandler = seen
	client, err := dynamic.NewForConfig(config)
	require.NoError(t, err)
	mine, ctx := client.Resource(v1.GroupVersion.WithResource("notes")).Namespace("default"), t.Context()
	selected := metav1.ListOptions{FieldSelector: "spec.text=yes"}
	w, err := mine.Watch(ctx, selected)
	require.NoError(t, err)
	defer w.Stop()
	for name, text := range map[string]string{"a": "no", "b": " no"} {
		_, err := mine.Create(ctx, note(name, text), metav1.CreateOptions{})
		require.NoError(t, err)
	}
	assert.Equal(t, []string{"spec.text: begins or ends with a space"}, seen.texts)
	_, err = mine.Create(ctx, note("c", "yes"), metav1.CreateOptions{})
	require.NoError(t, err)
	list, err := mine.List(ctx, selected)
	require.NoError(t, err)
	require.Len(t, list.Items, 1)
	assert.Equal(t, "c", list.Items[0].GetName())
	kind, object := next(t, w)
	assert.Equal(t, "ADDED c", string(kind)+" "+object.GetName())
	_, err = mine.Patch(ctx, "c", types.MergePatchType, []byte(`{"spec": {"text": "no"}}`), metav1.PatchOptions{})
	require.NoError(t, err)
	kind, object = next(t, w)
	assert.Equal(t, "DELETED c", string(kind)+" "+object.GetName(), "the selector no longer has it")
	_, err = mine.List(ctx, metav1.ListOptions{FieldSelector: "spec.colour=red"})
	assert.True(t, apierrors.IsBadRequest(err), "%v", err)
	assert.ErrorContains(t, err, `"spec.colour" is not a known field selector: only "metadata.name", "metadata.namespace", "spec.text"`)
}

func TestAFinalizerHoldsANote(t *testing.T) {
	t.Parallel()
	mine, ctx := notes(t), t.Context()
	held := note("held", "text")
	held.SetFinalizers([]string{"example.com/hold"})
	_, err := mine.Create(ctx, held, metav1.CreateOptions{})
	require.NoError(t, err)
	require.NoError(t, mine.Delete(ctx, "held", metav1.DeleteOptions{}))
	held, err = mine.Get(ctx, "held", metav1.GetOptions{})
	require.NoError(t, err)
	assert.NotNil(t, held.GetDeletionTimestamp())
	held.SetFinalizers(nil)
	_, err = mine.Update(ctx, held, metav1.UpdateOptions{})
	require.NoError(t, err)
	_, err = mine.Get(ctx, "held", metav1.GetOptions{})
	assert.True(t, apierrors.IsNotFound(err), "%v", err)
}

func TestPagesAreOfOneRevision(t *testing.T) {
	t.Parallel()
	mine, ctx := notes(t), t.Context()
	for _, name := range strings.Split("abcdef", "") {
		_, err := mine.Create(ctx, note(name, name), metav1.CreateOptions{})
		require.NoError(t, err)
	}
	var names []string
	page, err := mine.List(ctx, metav1.ListOptions{Limit: 4})
	require.NoError(t, err)
	for _, item := range page.Items {
		names = append(names, textOf(t, &item))
	}
	require.NoError(t, mine.DeleteCollection(ctx, metav1.DeleteOptions{}, metav1.ListOptions{}))
	page, err = mine.List(ctx, metav1.ListOptions{Limit: 4, Continue: page.GetContinue()})
	require.NoError(t, err)
	for _, item := range page.Items {
		names = append(names, textOf(t, &item))
	}
	assert.Equal(t, strings.Split("abcdef", ""), names)
}

// A replica that is started again has none of its objects, and its clients notice.
func TestAClientOfALostHistoryListsAgain(t *testing.T) {
	t.Parallel()
	api := apitest.Start(t, service())
	client, err := dynamic.NewForConfig(api.Admin())
	require.NoError(t, err)
	mine, ctx := client.Resource(v1.GroupVersion.WithResource("notes")).Namespace("default"), t.Context()
	before, err := mine.Create(ctx, note("a", "lost"), metav1.CreateOptions{})
	require.NoError(t, err)
	api.Kill("notes-0")
	api.WaitReady()
	list, err := mine.List(ctx, metav1.ListOptions{})
	require.NoError(t, err)
	assert.Empty(t, list.Items)
	w, err := mine.Watch(ctx, metav1.ListOptions{ResourceVersion: before.GetResourceVersion()})
	if err == nil {
		defer w.Stop()
		event := <-w.ResultChan()
		require.Equal(t, watch.Error, event.Type)
		err = apierrors.FromObject(event.Object)
	}
	assert.True(t, apierrors.IsResourceExpired(err), "%v", err)
}
