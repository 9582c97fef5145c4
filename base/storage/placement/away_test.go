// Copyright The Tripod Authors.
// SPDX-License-Identifier: Apache-2.0

package placement

import (
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apiserver/pkg/endpoints/request"
	"k8s.io/apiserver/pkg/storage"

	"github.com/tripod-k8s/tripod/base/migration"
)

// The steps of a move to an API service and back, as the command writes them.
var (
	leaving   = Record{Own: true, Service: "books", Switching: true}
	away      = Record{Own: true, Service: "books", Move: "one"}
	returning = Record{Own: true, Service: "books", Move: "one", Back: "two"}
	arriving  = Record{Own: true, Service: "books", Switching: true, Move: "two", Back: "two", Floor: 1}
	arrived   = Record{Move: "two", Floor: 1}
)

const moving = "cannot be written meanwhile"

func TestAReplicaFollowsAMoveToAServiceAndBack(t *testing.T) {
	t.Parallel()
	e := startEtcds(t)
	frozen, s := e.storage(t, false), e.storage(t, false)
	require.NoError(t, create(t, frozen, "a"))
	require.NoError(t, create(t, s, "b"))
	version := list(t, s).GetResourceVersion()
	watching, err := s.Watch(t.Context(), directory, since(version))
	require.NoError(t, err)

	put(t, e.shared, leaving)
	for _, replica := range []storage.Interface{frozen, s, e.storage(t, false)} {
		requireUnavailable(t, create(t, replica, "c"), moving)
		assert.Len(t, list(t, replica).Items, 2, "reads go on while a move switches")
	}
	select {
	case event := <-watching.ResultChan():
		t.Errorf("the watch ends, or has an event: %v", event)
	default:
	}

	put(t, e.shared, away)
	for event := range watching.ResultChan() {
		t.Errorf("%s event", event.Type)
	}
	for _, record := range []Record{away, returning} {
		put(t, e.shared, record)
		for _, replica := range []storage.Interface{s, e.storage(t, false)} {
			requireUnavailable(t, create(t, replica, "c"), "tripod migrate crd example.com --back")
			ctx := request.WithRequestInfo(t.Context(), &request.RequestInfo{})
			err := replica.GetList(ctx, directory, since(""), &unstructured.UnstructuredList{})
			requireUnavailable(t, err, "its objects are in the API service books")
			assert.Empty(t, list(t, replica).Items, "the controller that removes a definition finds nothing")
		}
	}

	put(t, e.shared, arriving)
	require.Eventually(t, func() bool { return len(list(t, s).Items) == 2 }, waitTimeout, 10*time.Millisecond, "reads go on")
	requireUnavailable(t, create(t, s, "c"), moving)
	version = list(t, s).GetResourceVersion()
	watching, err = s.Watch(t.Context(), directory, since(version))
	require.NoError(t, err)
	put(t, e.shared, arrived)
	require.NoError(t, create(t, s, "c"))
	assert.Equal(t, "c", (<-watching.ResultChan()).Object.(*unstructured.Unstructured).GetName(), "the watch goes on")
	require.Eventually(t, func() bool { return create(t, frozen, "d") == nil }, waitTimeout, 10*time.Millisecond)
}

// since returns the options of a list, or of a watch from a resourceVersion.
func since(version string) storage.ListOptions {
	return storage.ListOptions{ResourceVersion: version, Recursive: true, Predicate: storage.Everything}
}

// A replica that was frozen since before the move has its storage still.
func TestAFrozenReplicaWritesNothingOfAGroupThatIsAway(t *testing.T) {
	t.Parallel()
	e := startEtcds(t)
	frozen := e.storage(t, false)
	require.NoError(t, create(t, frozen, "a"))
	put(t, e.shared, away)
	err := create(t, frozen, "b")
	require.Error(t, err)
	assert.False(t, isStored(t, e, "b"))
}

func isStored(t *testing.T, e etcds, name string) bool {
	t.Helper()
	answer, err := e.shared.Get(t.Context(), "/registry"+directory+"/"+name)
	require.NoError(t, err)
	return len(answer.Kvs) > 0
}

func TestAReplicaStartsWhileAGroupIsAway(t *testing.T) {
	t.Parallel()
	e := startEtcds(t)
	_, err := e.shared.Put(t.Context(), "/registry"+definitions+"boats."+groupName, "{}")
	require.NoError(t, err)
	put(t, e.shared, away)
	require.NoError(t, e.groups(t, false).Check(t.Context(), func(string) bool { return true }))
}

func TestOnlyTheMoveBackWritesObjectsThatAreAway(t *testing.T) {
	t.Parallel()
	e := startEtcds(t)
	groups := e.groups(t, false)
	put(t, e.shared, away)
	_, err := groups.Returning(t.Context(), groupName, "two")
	require.ErrorIs(t, err, migration.ErrGate, "no move brings them back")
	put(t, e.shared, returning)
	_, err = groups.Returning(t.Context(), groupName, "three")
	require.ErrorIs(t, err, migration.ErrGate, "another move does")
	raw, err := groups.Returning(t.Context(), groupName, "two")
	require.NoError(t, err)
	config := groups.Shared
	s, destroy, err := raw(config.ForResource(schema.GroupResource{Group: groupName, Resource: "boats"}),
		func() runtime.Object { return &unstructured.Unstructured{} },
		func() runtime.Object { return &unstructured.UnstructuredList{} }, directory)
	require.NoError(t, err)
	t.Cleanup(destroy)
	require.NoError(t, create(t, s, "a"))
	assert.ErrorContains(t, create(t, s, "a"), "key exists")
	// A request of a run that has died may come after another one has begun.
	later := returning
	later.Back = "three"
	put(t, e.shared, later)
	require.ErrorIs(t, create(t, s, "b"), migration.ErrGate)
	assert.False(t, isStored(t, e, "b"))
}
