// Copyright The Tripod Authors.
// SPDX-License-Identifier: Apache-2.0

package storagetest

import (
	"context"
	"fmt"
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

	"github.com/tripod-k8s/tripod/apiservice/storages"
)

// gates are the rules for storages whose objects can move.
var gates = []rule{
	{"a closed gate refuses writes of clients, and no reads", gated(testClosedGate)},
	{"a closed gate admits writes of its move, and of no other", gated(testMoveWrites)},
	{"an object that a move writes is as it was", gated(testMovedObject)},
	{"no write of a client is done once the gate is closed", gated(testClosingGate)},
	{"resourceVersions of another API server expire when objects have come from there", gated(testRaise)},
}

// gated skips a rule for a storage without a gate.
func gated(test func(context.Context, *testing.T, storages.Gated)) func(context.Context, *testing.T, storage.Interface) {
	return func(ctx context.Context, t *testing.T, s storage.Interface) {
		with, ok := s.(storages.Gated)
		if !ok {
			t.Skip("not tested: the storage is no storages.Gated, so its objects cannot move")
		}
		test(ctx, t, with)
	}
}

const oneMove, otherMove = "one-move", "other-move"

// writeAll creates, changes and deletes a pod, and returns the errors. The pod a is to exist.
func writeAll(ctx context.Context, s storage.Interface) map[string]error {
	pod := &example.Pod{ObjectMeta: metav1.ObjectMeta{Name: "b", Namespace: namespace, UID: "uid-b"}}
	errs := map[string]error{"create": s.Create(ctx, keyOf("b"), pod, &example.Pod{}, 0)}
	_, errs["update"] = set(ctx, s, "a", strconv.FormatInt(time.Now().UnixNano(), 10))
	_, errs["delete"] = remove(ctx, s, "a")
	return errs
}

func testClosedGate(ctx context.Context, t *testing.T, s storages.Gated) {
	before := create(ctx, t, s, "a")
	move, err := s.Gate(ctx)
	require.NoError(t, err)
	assert.Empty(t, move, "a gate is open at first")
	require.NoError(t, s.SetGate(ctx, "", oneMove))
	move, err = s.Gate(ctx)
	require.NoError(t, err)
	assert.Equal(t, oneMove, move)
	for verb, err := range writeAll(ctx, s) {
		assert.True(t, apierrors.IsServiceUnavailable(err), "%s: %v", verb, err)
		seconds, ok := apierrors.SuggestsClientDelay(err)
		assert.True(t, ok && seconds > 0, "%s: the error has no Retry-After: %v", verb, err)
	}
	assert.Equal(t, []string{stateOf(before)}, states(list(ctx, t, s, storage.ListOptions{})))
	w, err := s.Watch(ctx, prefix, storage.ListOptions{Recursive: true, Predicate: storage.Everything})
	require.NoError(t, err)
	defer w.Stop()
	assert.Equal(t, stateOf(before), stateOf(next(t, w).Object.(*example.Pod)), "watches go on")

	require.ErrorIs(t, s.SetGate(ctx, "", otherMove), storages.ErrGate, "another move closes it, too")
	require.ErrorIs(t, s.SetGate(ctx, otherMove, ""), storages.ErrGate, "another move opens it")
	require.NoError(t, s.SetGate(ctx, oneMove, ""))
	for verb, err := range writeAll(ctx, s) {
		assert.NoError(t, err, "%s once the gate is open again", verb)
	}
}

func testMoveWrites(ctx context.Context, t *testing.T, s storages.Gated) {
	create(ctx, t, s, "a")
	for verb, err := range writeAll(storages.ByMove(ctx, oneMove), s) {
		assert.ErrorIs(t, err, storages.ErrGate, "%s by a move while the gate is open", verb)
	}
	require.NoError(t, s.SetGate(ctx, "", oneMove))
	for verb, err := range writeAll(storages.ByMove(ctx, otherMove), s) {
		assert.ErrorIs(t, err, storages.ErrGate, "%s by another move", verb)
	}
	for verb, err := range writeAll(storages.ByMove(ctx, oneMove), s) {
		assert.NoError(t, err, "%s by the move", verb)
	}
}

// moved is an object that another API server had.
func moved(uid string) *example.Pod {
	at := metav1.Date(2020, 1, 2, 3, 4, 5, 0, time.UTC)
	grace, yes := int64(30), true
	return &example.Pod{ObjectMeta: metav1.ObjectMeta{
		Name: "a", Namespace: namespace, UID: types.UID(uid), Generation: 7, CreationTimestamp: at, DeletionTimestamp: &at,
		DeletionGracePeriodSeconds: &grace, Finalizers: []string{"example.com/hold"}, Labels: map[string]string{"l": "1"},
		Annotations:     map[string]string{"a": "2"},
		OwnerReferences: []metav1.OwnerReference{{APIVersion: "v1", Kind: "Node", Name: "n", UID: "owner", Controller: &yes}},
		ManagedFields: []metav1.ManagedFieldsEntry{{
			Manager: "m", Operation: metav1.ManagedFieldsOperationApply, APIVersion: "v1", Time: &at, FieldsType: "FieldsV1",
			FieldsV1: metav1.NewFieldsV1(`{"f:spec":{}}`), Subresource: "status",
		}},
	}, Spec: example.PodSpec{NodeName: "n"}, Status: example.PodStatus{Phase: "Running", Message: "m"}}
}

func testMovedObject(ctx context.Context, t *testing.T, s storages.Gated) {
	require.NoError(t, s.SetGate(ctx, "", oneMove))
	by := storages.ByMove(ctx, oneMove)
	put := func(pod *example.Pod) *example.Pod {
		require.NoError(t, s.GuaranteedUpdate(by, keyOf("a"), &example.Pod{}, true, nil,
			storage.SimpleUpdate(func(runtime.Object) (runtime.Object, error) { return pod.DeepCopy(), nil }), nil))
		out := &example.Pod{}
		require.NoError(t, s.Get(ctx, keyOf("a"), storage.GetOptions{}, out))
		return out
	}
	first := put(moved("one"))
	same := func(want, got *example.Pod) {
		t.Helper()
		require.NotEmpty(t, got.ResourceVersion)
		got = got.DeepCopy()
		got.ResourceVersion = ""
		// Times have the zone of the machine.
		assert.True(t, want.CreationTimestamp.Equal(&got.CreationTimestamp) && want.DeletionTimestamp.Equal(got.DeletionTimestamp))
		got.CreationTimestamp, got.DeletionTimestamp = want.CreationTimestamp, want.DeletionTimestamp
		require.Len(t, got.ManagedFields, 1)
		got.ManagedFields[0].Time = want.ManagedFields[0].Time
		assert.Equal(t, want, got)
	}
	same(moved("one"), first)
	assert.Equal(t, first.ResourceVersion, put(moved("one")).ResourceVersion, "the same object is written again")
	other := put(moved("two"))
	same(moved("two"), other)
	assert.Greater(t, parse(t, other.ResourceVersion), parse(t, first.ResourceVersion), "an object with another UID takes its place")
	uid := types.UID("one")
	former := &storage.Preconditions{UID: &uid}
	err := s.Delete(by, keyOf("a"), &example.Pod{}, former, storage.ValidateAllObjectFunc, nil, storage.DeleteOptions{})
	assert.True(t, storage.IsInvalidObj(err), "a deletion of the object with the former UID: %v", err)
}

// testClosingGate closes the gate while clients write.
func testClosingGate(ctx context.Context, t *testing.T, s storages.Gated) {
	const writers = 8
	var wait sync.WaitGroup
	begun, listed := make(chan struct{}, writers), make(chan struct{})
	for writer := range writers {
		name := fmt.Sprintf("w%d", writer)
		create(ctx, t, s, name)
		wait.Go(func() {
			for round, last := 0, false; !last; round++ {
				if round == 1 {
					begun <- struct{}{}
				}
				select {
				case <-listed: // one more, which the gate must refuse
					last = true
				default:
				}
				if _, err := set(ctx, s, name, strconv.Itoa(round)); err != nil {
					assert.True(t, apierrors.IsServiceUnavailable(err), "%v", err)
					return
				}
			}
		})
	}
	for range writers {
		<-begun
	}
	require.NoError(t, s.SetGate(ctx, "", oneMove))
	closed := states(list(ctx, t, s, storage.ListOptions{}))
	close(listed)
	wait.Wait()
	assert.Equal(t, closed, states(list(ctx, t, s, storage.ListOptions{})), "a write was done later")
}

func testRaise(ctx context.Context, t *testing.T, s storages.Gated) {
	create(ctx, t, s, "a")
	others := &example.PodList{}
	require.NoError(t, s.GetList(ctx, prefix, storage.ListOptions{Recursive: true, Predicate: storage.Everything}, others))
	above := int64(1000)
	if is := parse(t, others.ResourceVersion); is < timesBegin {
		above += int64(is)
	}
	_, err := s.Raise(ctx, oneMove, above)
	require.ErrorIs(t, err, storages.ErrGate, "the gate is open")
	require.NoError(t, s.SetGate(ctx, "", oneMove))
	floor := int64(0)
	for floor == 0 {
		floor, err = s.Raise(ctx, oneMove, above)
		require.NoError(t, err)
	}
	require.Greater(t, floor, above)
	_, err = s.Raise(ctx, otherMove, above)
	require.ErrorIs(t, err, storages.ErrGate, "another move has closed the gate")
	require.NoError(t, s.SetGate(ctx, oneMove, ""))
	b := create(ctx, t, s, "b")
	require.Greater(t, int64(parse(t, b.ResourceVersion)), floor)

	event := firstSince(ctx, t, s, strconv.FormatInt(above, 10))
	require.Equal(t, watch.Error, event.Type)
	require.True(t, apierrors.IsResourceExpired(apierrors.FromObject(event.Object)), "%v", event.Object)
	event = firstSince(ctx, t, s, strconv.FormatInt(floor, 10))
	require.Equal(t, watch.Added, event.Type, "a watch from the floor goes on")
	assert.Equal(t, "b", event.Object.(*example.Pod).Name)
}

// timesBegin is less than resourceVersions that are times in nanoseconds, and more than revisions of etcd.
const timesBegin = 1 << 50

// firstSince returns the first event of a watch.
func firstSince(ctx context.Context, t *testing.T, s storage.Interface, version string) watch.Event {
	t.Helper()
	w, err := s.Watch(ctx, prefix, storage.ListOptions{ResourceVersion: version, Recursive: true, Predicate: storage.Everything})
	if err != nil {
		status := apierrors.APIStatus(nil)
		require.ErrorAs(t, err, &status)
		is := status.Status()
		return watch.Event{Type: watch.Error, Object: &is}
	}
	defer w.Stop()
	return next(t, w)
}
