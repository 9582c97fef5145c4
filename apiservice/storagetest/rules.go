// Copyright The Tripod Authors.
// SPDX-License-Identifier: Apache-2.0

package storagetest

import (
	"context"
	"errors"
	"fmt"
	"math"
	"strconv"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/apiserver/pkg/apis/example"
	"k8s.io/apiserver/pkg/storage"
	kubetest "k8s.io/apiserver/pkg/storage/testing"
)

// waitTimeout is how long a test waits for an event.
const waitTimeout = 30 * time.Second

const namespace = "test"

func keyOf(name string) string { return prefix + namespace + "/" + name }

func parse(t *testing.T, version string) uint64 {
	t.Helper()
	parsed, err := storage.APIObjectVersioner{}.ParseResourceVersion(version)
	require.NoError(t, err)
	return parsed
}

func create(ctx context.Context, t *testing.T, s storage.Interface, name string) *example.Pod {
	t.Helper()
	out := &example.Pod{}
	pod := &example.Pod{ObjectMeta: metav1.ObjectMeta{Name: name, Namespace: namespace, UID: types.UID("uid-" + name)}}
	require.NoError(t, s.Create(ctx, keyOf(name), pod, out, 0), "create %s", name)
	return out
}

// set writes an annotation, and returns the object as it is then.
func set(ctx context.Context, s storage.Interface, name, value string) (*example.Pod, error) {
	out := &example.Pod{}
	return out, s.GuaranteedUpdate(ctx, keyOf(name), out, false, nil, storage.SimpleUpdate(func(o runtime.Object) (runtime.Object, error) {
		o.(*example.Pod).Annotations = map[string]string{"value": value}
		return o, nil
	}), nil)
}

func remove(ctx context.Context, s storage.Interface, name string) (*example.Pod, error) {
	out := &example.Pod{}
	return out, s.Delete(ctx, keyOf(name), out, nil, storage.ValidateAllObjectFunc, nil, storage.DeleteOptions{})
}

func list(ctx context.Context, t *testing.T, s storage.Interface, opts storage.ListOptions) *example.PodList {
	t.Helper()
	opts.Recursive = true
	if opts.Predicate.Label == nil {
		selected := storage.Everything
		selected.Limit, selected.Continue = opts.Predicate.Limit, opts.Predicate.Continue
		opts.Predicate = selected
	}
	out := &example.PodList{}
	require.NoError(t, s.GetList(ctx, prefix, opts, out))
	return out
}

// states describes the objects of a list.
func states(l *example.PodList) []string {
	all := []string{}
	for _, pod := range l.Items {
		all = append(all, stateOf(&pod))
	}
	return all
}

func stateOf(pod *example.Pod) string {
	return fmt.Sprintf("%s=%s at %s", pod.Name, pod.Annotations["value"], pod.ResourceVersion)
}

// next returns the next event of a watch.
func next(t *testing.T, w watch.Interface) watch.Event {
	t.Helper()
	select {
	case event, ok := <-w.ResultChan():
		require.True(t, ok, "the watch has ended")
		return event
	case <-time.After(waitTimeout):
		require.FailNow(t, "no event", "after %s", waitTimeout)
	}
	return watch.Event{}
}

// increase makes a revision that changes no object of Kubernetes' tests.
func increase(s storage.Interface) kubetest.IncreaseRVFunc {
	return func(ctx context.Context, t *testing.T) int64 {
		create(ctx, t, s, "increase")
		pod, err := remove(ctx, s, "increase")
		require.NoError(t, err)
		return int64(parse(t, pod.ResourceVersion))
	}
}

func testKeys(ctx context.Context, t *testing.T, s storage.Interface) {
	for _, key := range []string{"", "/", ".", "..", "/pods", "/podsx/a", "/other/a", "/pods/../other", "/pods/./a"} {
		pod := &example.Pod{ObjectMeta: metav1.ObjectMeta{Name: "a"}}
		assert.Error(t, s.Create(ctx, key, pod, &example.Pod{}, 0), "create %q", key)
		assert.Error(t, s.Get(ctx, key, storage.GetOptions{IgnoreNotFound: true}, &example.Pod{}), "get %q", key)
		assert.Error(t, s.GuaranteedUpdate(ctx, key, &example.Pod{}, true, nil, storage.SimpleUpdate(
			func(o runtime.Object) (runtime.Object, error) { return o, nil }), nil), "update %q", key)
	}
}

func testGet(ctx context.Context, t *testing.T, s storage.Interface) {
	before := create(ctx, t, s, "a")
	now, err := set(ctx, s, "a", "now")
	require.NoError(t, err)
	get := func(name, version string) (string, error) {
		out := &example.Pod{}
		err := s.Get(ctx, keyOf(name), storage.GetOptions{ResourceVersion: version}, out)
		return stateOf(out), err
	}
	for _, version := range []string{"", "0", before.ResourceVersion, now.ResourceVersion} {
		state, err := get("a", version)
		require.NoError(t, err, "resourceVersion %q", version)
		assert.Equal(t, stateOf(now), state, "resourceVersion %q", version)
	}
	_, err = get("a", strconv.Itoa(math.MaxInt64))
	assert.True(t, storage.IsTooLargeResourceVersion(err), "a resourceVersion to come: %v", err)
	_, err = get("a", "x")
	assert.Error(t, err, "a resourceVersion that is no number")
	_, err = get("none", "")
	assert.True(t, storage.IsNotFound(err), "a missing object: %v", err)
	out := now.DeepCopy()
	require.NoError(t, s.Get(ctx, keyOf("none"), storage.GetOptions{IgnoreNotFound: true}, out))
	assert.Equal(t, &example.Pod{}, out, "a missing object that may be missing")
}

func testDeleteReturnsLastState(ctx context.Context, t *testing.T, s storage.Interface) {
	create(ctx, t, s, "a")
	last, err := set(ctx, s, "a", "last")
	require.NoError(t, err)
	deleted, err := remove(ctx, s, "a")
	require.NoError(t, err)
	assert.Equal(t, "last", deleted.Annotations["value"])
	assert.Equal(t, last.UID, deleted.UID)
	assert.Greater(t, parse(t, deleted.ResourceVersion), parse(t, last.ResourceVersion))
}

func testUpdate(ctx context.Context, t *testing.T, s storage.Interface) {
	before := create(ctx, t, s, "a")
	same := storage.SimpleUpdate(func(o runtime.Object) (runtime.Object, error) { return o, nil })
	out := &example.Pod{}
	require.NoError(t, s.GuaranteedUpdate(ctx, keyOf("a"), out, false, storage.NewUIDPreconditions(string(before.UID)), same, nil))
	assert.Equal(t, before, out, "an update without a change")

	err := s.GuaranteedUpdate(ctx, keyOf("a"), out, false, storage.NewUIDPreconditions("other"), same, nil)
	assert.True(t, storage.IsInvalidObj(err), "another UID: %v", err)
	version := "1"
	err = s.GuaranteedUpdate(ctx, keyOf("a"), out, false, &storage.Preconditions{ResourceVersion: &version}, same, nil)
	assert.True(t, storage.IsInvalidObj(err), "another resourceVersion: %v", err)
	err = s.GuaranteedUpdate(ctx, keyOf("none"), out, false, nil, same, nil)
	assert.True(t, storage.IsNotFound(err), "a missing object: %v", err)

	stop := errors.New("no")
	err = s.GuaranteedUpdate(ctx, keyOf("a"), out, false, nil, storage.SimpleUpdate(
		func(runtime.Object) (runtime.Object, error) { return nil, stop }), nil)
	assert.ErrorIs(t, err, stop)

	made := &example.Pod{}
	make := storage.SimpleUpdate(func(o runtime.Object) (runtime.Object, error) {
		pod := o.(*example.Pod)
		assert.Empty(t, pod.Name, "the object before it exists")
		pod.Name, pod.Namespace = "b", namespace
		return pod, nil
	})
	require.NoError(t, s.GuaranteedUpdate(ctx, keyOf("b"), made, true, nil, make, nil))
	assert.Greater(t, parse(t, made.ResourceVersion), parse(t, before.ResourceVersion))
}

func testConcurrentUpdates(ctx context.Context, t *testing.T, s storage.Interface) {
	const writers, each = 8, 25
	create(ctx, t, s, "a")
	var wait sync.WaitGroup
	for range writers {
		wait.Go(func() {
			for range each {
				assert.NoError(t, s.GuaranteedUpdate(ctx, keyOf("a"), &example.Pod{}, false, nil,
					storage.SimpleUpdate(func(o runtime.Object) (runtime.Object, error) {
						pod := o.(*example.Pod)
						count, _ := strconv.Atoi(pod.Annotations["value"])
						pod.Annotations = map[string]string{"value": strconv.Itoa(count + 1)}
						return pod, nil
					}), nil))
			}
		})
	}
	wait.Wait()
	out := &example.Pod{}
	require.NoError(t, s.Get(ctx, keyOf("a"), storage.GetOptions{}, out))
	assert.Equal(t, strconv.Itoa(writers*each), out.Annotations["value"])
}

func testCreatedAgain(ctx context.Context, t *testing.T, s storage.Interface) {
	last := create(ctx, t, s, "a").ResourceVersion
	for range 3 {
		deleted, err := remove(ctx, s, "a")
		require.NoError(t, err)
		assert.Greater(t, parse(t, deleted.ResourceVersion), parse(t, last))
		last = create(ctx, t, s, "a").ResourceVersion
		assert.Greater(t, parse(t, last), parse(t, deleted.ResourceVersion))
	}
}

func testListAtVersion(ctx context.Context, t *testing.T, s storage.Interface) {
	create(ctx, t, s, "a")
	create(ctx, t, s, "b")
	then := list(ctx, t, s, storage.ListOptions{})
	require.Len(t, then.Items, 2)
	_, err := set(ctx, s, "a", "later")
	require.NoError(t, err)
	_, err = remove(ctx, s, "b")
	require.NoError(t, err)
	create(ctx, t, s, "c")

	opts := storage.ListOptions{ResourceVersion: then.ResourceVersion, ResourceVersionMatch: metav1.ResourceVersionMatchExact}
	exact := list(ctx, t, s, opts)
	assert.Equal(t, states(then), states(exact))
	assert.Equal(t, then.ResourceVersion, exact.ResourceVersion)
	opts.ResourceVersionMatch = metav1.ResourceVersionMatchNotOlderThan
	newer := list(ctx, t, s, opts)
	assert.GreaterOrEqual(t, parse(t, newer.ResourceVersion), parse(t, then.ResourceVersion))
}

func testPagesWhileObjectsChange(ctx context.Context, t *testing.T, s storage.Interface) {
	const objects, limit = 30, 7
	for i := range objects {
		create(ctx, t, s, fmt.Sprintf("p%02d", i))
	}
	whole := list(ctx, t, s, storage.ListOptions{})
	page := list(ctx, t, s, storage.ListOptions{Predicate: storage.SelectionPredicate{Limit: limit}})
	all := states(page)
	for i := 0; page.Continue != ""; i++ {
		_, err := set(ctx, s, fmt.Sprintf("p%02d", objects-1-i), "changed")
		require.NoError(t, err)
		_, err = remove(ctx, s, fmt.Sprintf("p%02d", objects/2+i))
		require.NoError(t, err)
		create(ctx, t, s, fmt.Sprintf("p%02d-new", objects/2+i))
		page = list(ctx, t, s, storage.ListOptions{Predicate: storage.SelectionPredicate{Limit: limit, Continue: page.Continue}})
		assert.Equal(t, whole.ResourceVersion, page.ResourceVersion)
		all = append(all, states(page)...)
	}
	assert.Equal(t, states(whole), all)
}

func testInitialEvents(ctx context.Context, t *testing.T, s storage.Interface) {
	a, b := create(ctx, t, s, "a"), create(ctx, t, s, "b")
	selected := storage.Everything
	selected.AllowWatchBookmarks = true
	w, err := s.Watch(ctx, prefix, storage.ListOptions{Recursive: true, Predicate: selected, SendInitialEvents: new(true)})
	require.NoError(t, err)
	defer w.Stop()
	for _, pod := range []*example.Pod{a, b} {
		event := next(t, w)
		assert.Equal(t, watch.Added, event.Type)
		assert.Equal(t, stateOf(pod), stateOf(event.Object.(*example.Pod)))
	}
	bookmark := next(t, w)
	require.Equal(t, watch.Bookmark, bookmark.Type)
	ends, err := storage.HasInitialEventsEndBookmarkAnnotation(bookmark.Object)
	require.NoError(t, err)
	assert.True(t, ends, "the bookmark has the annotation %s", metav1.InitialEventsAnnotationKey)
	assert.GreaterOrEqual(t, parse(t, bookmark.Object.(*example.Pod).ResourceVersion), parse(t, b.ResourceVersion))
	c := create(ctx, t, s, "c")
	assert.Equal(t, stateOf(c), stateOf(next(t, w).Object.(*example.Pod)))
}

func testForgottenWatch(
	ctx context.Context, t *testing.T, s storage.Interface, compact func(context.Context, *testing.T, storage.Interface, int64),
) {
	first := create(ctx, t, s, "a")
	for i := range 3 {
		_, err := set(ctx, s, "a", strconv.Itoa(i))
		require.NoError(t, err)
	}
	last, err := set(ctx, s, "a", "last")
	require.NoError(t, err)
	compact(ctx, t, s, int64(parse(t, last.ResourceVersion)))
	w, err := s.Watch(ctx, prefix, storage.ListOptions{Recursive: true, Predicate: storage.Everything, ResourceVersion: first.ResourceVersion})
	if err == nil {
		defer w.Stop()
		event := next(t, w)
		require.Equal(t, watch.Error, event.Type, "a watch from a forgotten revision: %v", event.Object)
		err = apierrors.FromObject(event.Object)
	}
	assert.True(t, apierrors.IsResourceExpired(err) || apierrors.IsGone(err), "%v", err)
}
