// Copyright The Tripod Authors.
// SPDX-License-Identifier: Apache-2.0

package placement

import (
	"context"
	"net/http"
	"strconv"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	clientv3 "go.etcd.io/etcd/client/v3"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/apiserver/pkg/registry/generic"
	"k8s.io/apiserver/pkg/storage"
	"k8s.io/apiserver/pkg/storage/etcd3/testserver"
	"k8s.io/apiserver/pkg/storage/storagebackend"
	"k8s.io/apiserver/pkg/storage/storagebackend/factory"

	"github.com/tripod-k8s/tripod/internal/storage/etcdclient"
)

const (
	groupName = "example.com"
	directory = "/example.com/boats"
	patience  = time.Minute
)

var keysOfTest = KeysOf("/registry", groupName)

// etcds are a shared etcd and one of the group's own.
type etcds struct {
	shared, own *clientv3.Client
}

func startEtcds(t *testing.T) etcds {
	t.Helper()
	return etcds{testserver.RunEtcd(t, nil).Client, testserver.RunEtcd(t, nil).Client}
}

func configOf(client *clientv3.Client) storagebackend.Config {
	config := storagebackend.NewDefaultConfig("/registry", unstructured.UnstructuredJSONScheme)
	config.Transport.ServerList, config.CompactionInterval = client.Endpoints(), 0
	return *config
}

func (e etcds) groups(hasOwn bool) *Groups {
	return &Groups{Clients: &etcdclient.Clients{}, Shared: configOf(e.shared), Name: "extensions-big", Own: func(string) (storagebackend.Config, bool) {
		return configOf(e.own), hasOwn
	}}
}

// storage returns what a replica uses for boats.
func (e etcds) storage(t *testing.T, hasOwn bool) storage.Interface {
	t.Helper()
	groups := e.groups(hasOwn)
	config := groups.Shared
	newFunc := func() runtime.Object { return &unstructured.Unstructured{} }
	newListFunc := func() runtime.Object { return &unstructured.UnstructuredList{} }
	s, destroy, err := groups.Decorate(func(raw etcdclient.NewRawStorage) generic.StorageDecorator { return etcdclient.Decorator(raw, false) })(
		config.ForResource(schema.GroupResource{Group: groupName, Resource: "boats"}), directory,
		func(object runtime.Object) (string, error) {
			accessor, err := meta.Accessor(object)
			return directory + "/" + accessor.GetName(), err
		}, newFunc, newListFunc, storage.DefaultClusterScopedAttr, nil, nil)
	require.NoError(t, err)
	t.Cleanup(destroy)
	return s
}

func create(t *testing.T, s storage.Interface, name string) error {
	t.Helper()
	boat := &unstructured.Unstructured{Object: map[string]any{"apiVersion": "example.com/v1", "kind": "Boat", "metadata": map[string]any{"name": name}}}
	return s.Create(t.Context(), directory+"/"+name, boat, nil, 0)
}

func list(t *testing.T, s storage.Interface) *unstructured.UnstructuredList {
	t.Helper()
	found := &unstructured.UnstructuredList{}
	require.NoError(t, s.GetList(t.Context(), directory, storage.ListOptions{Recursive: true, Predicate: storage.Everything}, found))
	return found
}

func put(t *testing.T, client *clientv3.Client, record Record) {
	t.Helper()
	_, err := client.Do(t.Context(), keysOfTest.Put(record))
	require.NoError(t, err)
}

func has(t *testing.T, client *clientv3.Client) bool {
	t.Helper()
	state, err := keysOfTest.Read(t.Context(), client)
	require.NoError(t, err)
	return state.HasObjects
}

func requireUnavailable(t *testing.T, err error, why string) {
	t.Helper()
	var status apierrors.APIStatus
	require.ErrorAs(t, err, &status)
	assert.Equal(t, int32(http.StatusServiceUnavailable), status.Status().Code)
	assert.Equal(t, int32(1), status.Status().Details.RetryAfterSeconds)
	assert.ErrorContains(t, err, why)
}

func TestAGroupWithoutObjectsGoesToItsOwnEtcd(t *testing.T) {
	e := startEtcds(t)
	first, second := e.storage(t, true), e.storage(t, true)
	old := e.storage(t, false)
	assert.Empty(t, list(t, old).Items, "a replica without the etcd uses the shared one")
	require.NoError(t, create(t, first, "a"))
	require.NoError(t, create(t, second, "b"))
	assert.Len(t, list(t, second).Items, 2)
	assert.True(t, has(t, e.own))
	assert.False(t, has(t, e.shared))
	requireUnavailable(t, create(t, old, "c"), "the API group example.com is unavailable")
	assert.False(t, has(t, e.shared), "a replica with an old configuration wrote")
}

func TestAGroupWithObjectsStaysUntilItMoves(t *testing.T) {
	e := startEtcds(t)
	require.NoError(t, create(t, e.storage(t, false), "a"))
	s := e.storage(t, true)
	require.NoError(t, create(t, s, "b"))
	assert.False(t, has(t, e.own))
	require.Eventually(t, func() bool {
		state, err := keysOfTest.Read(t.Context(), e.own)
		return err == nil && state.Reader == "extensions-big"
	}, patience, 10*time.Millisecond, "the etcd knows who would use it")
}

func TestAGroupDoesNotGoWhereAMoveHasLeftObjects(t *testing.T) {
	for name, record := range map[string]Record{"that has died": {Own: true, Move: "died"}, "that has gone back": {Move: "back"}} {
		t.Run(name, func(t *testing.T) {
			e := startEtcds(t)
			put(t, e.own, record)
			_, err := e.own.Put(t.Context(), "/registry/example.com/boats/old", "{}")
			require.NoError(t, err)
			requireUnavailable(t, create(t, e.storage(t, true), "a"), "has objects of the group that no move has brought there")
			state, err := keysOfTest.Read(t.Context(), e.shared)
			require.NoError(t, err)
			assert.Nil(t, state.Record)
		})
	}
}

func TestWritesPause(t *testing.T) {
	e := startEtcds(t)
	s, other := e.storage(t, false), e.storage(t, false)
	require.NoError(t, create(t, s, "a"))
	lease, err := e.shared.Grant(t.Context(), 60)
	require.NoError(t, err)
	_, err = e.shared.Put(t.Context(), keysOfTest.Pause, "", clientv3.WithLease(lease.ID))
	require.NoError(t, err)
	for name, s := range map[string]storage.Interface{"known before": s, "not known before": other} {
		requireUnavailable(t, create(t, s, "b"), "cannot be written meanwhile")
		assert.Len(t, list(t, s).Items, 1, name)
		err := s.Delete(t.Context(), directory+"/a", &unstructured.Unstructured{}, nil, storage.ValidateAllObjectFunc, nil, storage.DeleteOptions{})
		requireUnavailable(t, err, "cannot be written meanwhile")
	}
	_, err = e.shared.Revoke(t.Context(), lease.ID)
	require.NoError(t, err)
	require.NoError(t, create(t, s, "b"))
	require.NoError(t, create(t, other, "c"))
	assert.ErrorContains(t, create(t, s, "b"), "key exists", "the fence hides no other reason")
}

// move moves the objects of the group as `tripod migrate groups` does, but for the copy.
func (e etcds) move(t *testing.T, r Record) {
	t.Helper()
	put(t, e.own, Record{Own: r.Own, Move: r.Move})
	put(t, e.shared, r)
}

func TestAReplicaFollowsAMove(t *testing.T) {
	e := startEtcds(t)
	require.NoError(t, create(t, e.storage(t, false), "a"))
	s := e.storage(t, true)
	before := list(t, s).GetResourceVersion()
	watching, err := s.Watch(t.Context(), directory, storage.ListOptions{ResourceVersion: before, Recursive: true, Predicate: storage.Everything})
	require.NoError(t, err)
	answer, err := e.own.Get(t.Context(), "/")
	require.NoError(t, err)
	floor, err := strconv.ParseInt(before, 10, 64)
	require.NoError(t, err)
	floor = max(floor, answer.Header.GetRevision()) + 1

	e.move(t, Record{Own: true, Move: "first", Floor: floor})
	for event := range watching.ResultChan() {
		t.Errorf("%s event", event.Type)
	}
	require.Eventually(t, func() bool { return create(t, s, "b") == nil }, patience, 10*time.Millisecond, "writes go on")
	assert.True(t, has(t, e.own))
	again, err := s.Watch(t.Context(), directory, storage.ListOptions{ResourceVersion: before, Recursive: true, Predicate: storage.Everything})
	require.NoError(t, err)
	refusal := <-again.ResultChan()
	assert.Equal(t, watch.Error, refusal.Type)
	assert.True(t, apierrors.IsResourceExpired(apierrors.FromObject(refusal.Object)))
	exact := storage.ListOptions{ResourceVersion: before, ResourceVersionMatch: metav1.ResourceVersionMatchExact, Recursive: true, Predicate: storage.Everything}
	assert.True(t, apierrors.IsResourceExpired(s.GetList(t.Context(), directory, exact, &unstructured.UnstructuredList{})))

	e.move(t, Record{Move: "second", Floor: floor})
	require.Eventually(t, func() bool { return create(t, s, "c") == nil }, patience, 10*time.Millisecond, "writes go on")
	assert.Len(t, list(t, s).Items, 2, "a and c in the shared etcd")
}

func TestAnEtcdWithoutTheObjectsIsNotUsed(t *testing.T) {
	e := startEtcds(t)
	e.move(t, Record{Own: true, Move: "first"})
	for name, test := range map[string]struct {
		e      etcds
		hasOwn bool
		want   string
	}{
		"another one":                 {etcds{e.shared, testserver.RunEtcd(t, nil).Client}, true, "does not have its objects"},
		"none":                        {e, false, "its objects are in an etcd of their own: give --group-etcd-servers, or move them"},
		"the shared one in its place": {etcds{e.own, e.own}, true, ""},
	} {
		err := create(t, test.e.storage(t, test.hasOwn), "a")
		if test.want == "" {
			require.NoError(t, err, name)
			continue
		}
		requireUnavailable(t, err, test.want)
	}
}

func TestAnEtcdThatIsClosedIsNotWritten(t *testing.T) {
	e := startEtcds(t)
	e.move(t, Record{Own: true, Move: "first"})
	s := e.storage(t, true)
	require.NoError(t, create(t, s, "a"))
	put(t, e.own, Record{Move: "first"}) // the way back has begun
	for _, s := range []storage.Interface{s, e.storage(t, true)} {
		requireUnavailable(t, create(t, s, "b"), "cannot be written meanwhile")
		assert.Len(t, list(t, s).Items, 1)
	}
	put(t, e.own, Record{Own: true, Move: "first"}) // and was given up
	require.NoError(t, create(t, s, "b"))
}

func TestAReplicaDoesNotStartWithoutTheEtcdOfAGroup(t *testing.T) {
	e := startEtcds(t)
	for _, name := range []string{"boats.example.com", "cars.example.com", "boats.example.org"} {
		_, err := e.shared.Put(t.Context(), "/registry/apiextensions.k8s.io/customresourcedefinitions/"+name, "")
		require.NoError(t, err)
	}
	serves := func(groups ...string) func(string) bool {
		return func(group string) bool { return len(groups) == 0 || groups[0] == group }
	}
	require.NoError(t, e.groups(false).Check(t.Context(), serves()))
	put(t, e.shared, Record{Own: true, Move: "first"})
	err := e.groups(false).Check(t.Context(), serves())
	require.ErrorContains(t, err, "extensions-big cannot serve the API group example.com: its objects are in an etcd of their own; "+
		"give --group-etcd-servers, or move them by tripod migrate groups --to extensions example.com")
	require.NoError(t, e.groups(false).Check(t.Context(), serves("example.org")), "a group of another partition")
	require.NoError(t, e.groups(true).Check(t.Context(), serves()))
}

func TestAStorageThatIsDestroyedIsNotMadeAgain(t *testing.T) {
	e := startEtcds(t)
	groups := e.groups(false)
	destroyed := 0
	s := &placed{group: groups.group(groupName), make: func(*place) (storage.Interface, factory.DestroyFunc, error) {
		return &nothing{}, func() { destroyed++ }, nil
	}}
	_, release, err := s.use(context.Background())
	require.NoError(t, err)
	s.destroy()
	assert.Zero(t, destroyed, "it is in use")
	release()
	assert.Equal(t, 1, destroyed)
	_, _, err = s.use(context.Background())
	requireUnavailable(t, err, "is being removed")
}

type nothing struct{ storage.Interface }
