// Copyright The Tripod Authors.
// SPDX-License-Identifier: Apache-2.0

package behaviour

import (
	"context"
	"fmt"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/util/resourceversion"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/dynamic/dynamicinformer"
	"k8s.io/client-go/tools/cache"

	"github.com/tripod-k8s/tripod/test/framework"
)

func TestListsComeInChunks(t *testing.T) {
	forCoreAndCustom(t, func(t *testing.T, r resource, namespace string) {
		client := r.in(t, namespace)
		createNumbered(t, client, r, 5)
		seen := map[string]bool{}
		options := metav1.ListOptions{Limit: 2, LabelSelector: "numbered=yes"}
		var version string
		for pages := 1; ; pages++ {
			list, err := client.List(t.Context(), options)
			require.NoError(t, err)
			if len(list.Items) > 2 {
				t.Errorf("page %d has %d items", pages, len(list.Items))
			}
			for _, item := range list.Items {
				seen[item.GetName()] = true
			}
			if version == "" {
				version = list.GetResourceVersion()
			}
			if list.GetResourceVersion() != version {
				t.Errorf("page %d is of resourceVersion %s, the first of %s", pages, list.GetResourceVersion(), version)
			}
			if options.Continue = list.GetContinue(); options.Continue == "" {
				break
			}
			// A later page does not show what was created after the first one.
			create(t, client, numbered(r, 10+pages))
		}
		assert.Len(t, seen, 5)
	})
}

func TestTheFirstChunkSaysHowManyRemain(t *testing.T) {
	forCoreAndCustom(t, func(t *testing.T, r resource, namespace string) {
		client := r.in(t, namespace)
		createNumbered(t, client, r, 5)
		list, err := client.List(t.Context(), metav1.ListOptions{Limit: 2})
		require.NoError(t, err)
		remaining := list.GetRemainingItemCount()
		if remaining == nil || *remaining < 3 {
			t.Errorf("got %v", remaining)
		}
	})
}

func TestWatchDeliversChangesInOrder(t *testing.T) {
	forCoreAndCustom(t, func(t *testing.T, r resource, namespace string) {
		ctx, client := t.Context(), r.in(t, namespace)
		list, err := client.List(ctx, metav1.ListOptions{})
		require.NoError(t, err)
		watcher, err := client.Watch(ctx, metav1.ListOptions{ResourceVersion: list.GetResourceVersion(), FieldSelector: "metadata.name=a"})
		require.NoError(t, err)
		defer watcher.Stop()

		object := create(t, client, r.object("a", "red"))
		expect(t, watcher, watch.Added, func(o *unstructured.Unstructured) bool { return color(o) == "red" })
		create(t, client, r.object("other", "grey"))
		require.NoError(t, unstructured.SetNestedField(object.Object, "blue", "data", "color"))
		if _, err := client.Update(ctx, object, metav1.UpdateOptions{}); err != nil {
			t.Fatal(err)
		}
		expect(t, watcher, watch.Modified, func(o *unstructured.Unstructured) bool { return color(o) == "blue" })
		require.NoError(t, client.Delete(ctx, "a", metav1.DeleteOptions{}))
		expect(t, watcher, watch.Deleted, func(o *unstructured.Unstructured) bool { return o.GetName() == "a" })
	})
}

func TestWatchSendsABookmarkBeforeItEnds(t *testing.T) {
	forCoreAndCustom(t, func(t *testing.T, r resource, namespace string) {
		client, seconds := r.in(t, namespace), int64(5)
		list, err := client.List(t.Context(), metav1.ListOptions{})
		require.NoError(t, err)
		watcher, err := client.Watch(t.Context(), metav1.ListOptions{
			ResourceVersion: list.GetResourceVersion(), AllowWatchBookmarks: true, TimeoutSeconds: &seconds,
		})
		require.NoError(t, err)
		object := create(t, client, r.object("a", "red"))
		expect(t, watcher, watch.Added, func(o *unstructured.Unstructured) bool { return o.GetName() == "a" })
		expect(t, watcher, watch.Bookmark, func(o *unstructured.Unstructured) bool {
			newer, err := resourceversion.CompareResourceVersion(o.GetResourceVersion(), object.GetResourceVersion())
			return err == nil && newer >= 0 && o.GetKind() == r.kind
		})
		for event := range watcher.ResultChan() {
			assert.Equal(t, watch.Bookmark, event.Type, "unexpected %v", event)
		}
	})
}

func TestWatchFromAResourceVersionThatIsGoneIsRefused(t *testing.T) {
	needsEtcd(t, "it keeps its history")
	t.Parallel()
	gvr, err := sharedWidgets()
	require.NoError(t, err)
	r := resource{gvr, "Widget"}
	require.NoError(t, cluster.ForgetHistory(t.Context()))
	watcher, err := r.in(t, createNamespace(t)).Watch(t.Context(), metav1.ListOptions{ResourceVersion: "1"})
	require.NoError(t, err)
	defer watcher.Stop()
	event := <-watcher.ResultChan()
	if err := apierrors.FromObject(event.Object); event.Type != watch.Error || !apierrors.IsResourceExpired(err) {
		t.Errorf("got %s: %v", event.Type, err)
	}
}

func TestWatchListStreamsTheInitialState(t *testing.T) {
	forCoreAndCustom(t, func(t *testing.T, r resource, namespace string) {
		client, yes := r.in(t, namespace), true
		createNumbered(t, client, r, 3)
		watcher, err := client.Watch(t.Context(), metav1.ListOptions{
			SendInitialEvents: &yes, AllowWatchBookmarks: true, LabelSelector: "numbered=yes",
			ResourceVersionMatch: metav1.ResourceVersionMatchNotOlderThan,
		})
		require.NoError(t, err)
		defer watcher.Stop()
		for i := range 3 {
			expect(t, watcher, watch.Added, func(o *unstructured.Unstructured) bool { return o.GetName() == numbered(r, i).GetName() })
		}
		expect(t, watcher, watch.Bookmark, func(o *unstructured.Unstructured) bool {
			return o.GetAnnotations()[metav1.InitialEventsAnnotationKey] == "true"
		})
		create(t, client, numbered(r, 7))
		expect(t, watcher, watch.Added, func(o *unstructured.Unstructured) bool { return o.GetName() == numbered(r, 7).GetName() })
	})
}

func TestInformersFollowChanges(t *testing.T) {
	forCoreAndCustom(t, func(t *testing.T, r resource, namespace string) {
		client := r.in(t, namespace)
		createNumbered(t, client, r, 2)
		ctx, cancel := context.WithCancel(t.Context())
		defer cancel()
		factory := dynamicinformer.NewFilteredDynamicSharedInformerFactory(dynamicClient(t, cluster.Admin()), 0, namespace,
			func(o *metav1.ListOptions) { o.LabelSelector = "numbered=yes" })
		informer := factory.ForResource(r.GroupVersionResource).Informer()
		factory.Start(ctx.Done())
		defer factory.Shutdown()
		defer cancel()
		if !cache.WaitForCacheSync(ctx.Done(), informer.HasSynced) {
			t.Fatal("no sync")
		}
		require.NoError(t, client.Delete(ctx, numbered(r, 0).GetName(), metav1.DeleteOptions{}))
		create(t, client, numbered(r, 2))
		framework.Eventually(t, "the informer has followed", func(context.Context) error {
			_, gone, _ := informer.GetStore().GetByKey(namespace + "/" + numbered(r, 0).GetName())
			if keys := informer.GetStore().ListKeys(); gone || len(keys) != 2 {
				return fmt.Errorf("it has %v", keys)
			}
			return nil
		})
	})
}

// numbered returns an object with the label numbered=yes.
func numbered(r resource, n int) *unstructured.Unstructured {
	object := r.object(fmt.Sprintf("n-%d", n), "red")
	object.SetLabels(map[string]string{"numbered": "yes"})
	return object
}

func createNumbered(t testing.TB, client dynamic.ResourceInterface, r resource, count int) {
	t.Helper()
	for i := range count {
		create(t, client, numbered(r, i))
	}
}

// expect reads the next event, which has to be of a type and match.
func expect(t testing.TB, watcher watch.Interface, kind watch.EventType, matches func(*unstructured.Unstructured) bool) {
	t.Helper()
	select {
	case event, ok := <-watcher.ResultChan():
		require.True(t, ok, "the watch ended before %s", kind)
		object, isObject := event.Object.(*unstructured.Unstructured)
		if event.Type != kind || !isObject || !matches(object) {
			t.Fatalf("want %s, got %s %v", kind, event.Type, event.Object)
		}
	case <-time.After(giveUp):
		t.Fatalf("no %s", kind)
	}
}
