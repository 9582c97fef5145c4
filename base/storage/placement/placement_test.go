// Copyright The Tripod Authors.
// SPDX-License-Identifier: Apache-2.0

package placement

import (
	"context"
	"fmt"
	"net/http"
	"runtime/pprof"
	"strconv"
	"strings"
	"sync"
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
	"k8s.io/apiserver/pkg/storage/storagebackend"
	"k8s.io/apiserver/pkg/storage/storagebackend/factory"
	"k8s.io/client-go/tools/cache"

	"github.com/tripod-k8s/tripod/base/storage/etcdclient"
	"github.com/tripod-k8s/tripod/base/storage/etcdtest"
)

const (
	groupName   = "example.com"
	directory   = "/example.com/boats"
	waitTimeout = time.Minute
)

var keysOfTest = KeysOf("/registry", groupName)

// etcds are a shared etcd and one of the group's own.
type etcds struct {
	shared, own *clientv3.Client
}

func startEtcds(t *testing.T) etcds {
	t.Helper()
	return etcds{etcdtest.Start(t), etcdtest.Start(t)}
}

func configOf(client *clientv3.Client) storagebackend.Config {
	config := storagebackend.NewDefaultConfig("/registry", unstructured.UnstructuredJSONScheme)
	config.Transport.ServerList, config.CompactionInterval = client.Endpoints(), 0
	return *config
}

func (e etcds) groups(t *testing.T, hasOwn bool) *Groups {
	t.Helper()
	shared, own := configOf(e.shared), configOf(e.own)
	groups := &Groups{Clients: &etcdclient.Clients{}, Shared: shared, Name: "extensions-big", waitTimeout: time.Minute, Own: func(string) (storagebackend.Config, bool) {
		return own, hasOwn
	}}
	// An etcd waits for the watches of its clients when it ends.
	t.Cleanup(func() {
		for _, config := range []*storagebackend.Config{&shared, &own} {
			if client, err := groups.Clients.Client(config); assert.NoError(t, err) {
				client.Close()
			}
		}
	})
	return groups
}

// storage returns what a replica uses for boats.
func (e etcds) storage(t *testing.T, hasOwn bool) storage.Interface {
	t.Helper()
	return e.storageOf(t, e.groups(t, hasOwn))
}

func (e etcds) storageOf(t *testing.T, groups *Groups) storage.Interface {
	t.Helper()
	return e.storageWith(t, groups, false)
}

// stored is a storage of boats.
type stored struct{ storage.Interface }

func (e etcds) storageWith(t *testing.T, groups *Groups, cached bool) stored {
	t.Helper()
	config := groups.Shared
	newFunc := func() runtime.Object { return &unstructured.Unstructured{} }
	newListFunc := func() runtime.Object { return &unstructured.UnstructuredList{} }
	s, destroy, err := groups.Decorate(func(raw etcdclient.NewRawStorage) generic.StorageDecorator { return etcdclient.Decorator(raw, cached) })(
		config.ForResource(schema.GroupResource{Group: groupName, Resource: "boats"}), directory,
		func(object runtime.Object) (string, error) {
			accessor, err := meta.Accessor(object)
			return directory + "/" + accessor.GetName(), err
		}, newFunc, newListFunc, storage.DefaultClusterScopedAttr, nil, nil)
	require.NoError(t, err)
	t.Cleanup(destroy)
	return stored{s}
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
	t.Parallel()
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
	t.Parallel()
	e := startEtcds(t)
	require.NoError(t, create(t, e.storage(t, false), "a"))
	s := e.storage(t, true)
	require.NoError(t, create(t, s, "b"))
	assert.False(t, has(t, e.own))
	e.requireReader(t)
}

// requireReader waits until the own etcd knows who would use it.
func (e etcds) requireReader(t *testing.T) {
	t.Helper()
	require.Eventually(t, func() bool {
		state, err := keysOfTest.Read(t.Context(), e.own)
		return err == nil && state.Reader == "extensions-big"
	}, waitTimeout, 10*time.Millisecond)
}

func TestAGroupDoesNotGoWhereAMoveHasLeftObjects(t *testing.T) {
	t.Parallel()
	for name, record := range map[string]Record{"that has died": {Own: true, Move: "died", Pending: true}, "that has gone back": {Move: "back"}} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			e := startEtcds(t)
			put(t, e.own, record)
			_, err := e.own.Put(t.Context(), "/registry/example.com/boats/old", "{}")
			require.NoError(t, err)
			s := e.storage(t, true)
			require.NoError(t, create(t, s, "a"))
			assert.True(t, has(t, e.shared))
			assert.Len(t, list(t, s).Items, 1)
			e.requireReader(t)
		})
	}
}

// A shared etcd that was restored, or replaced by another one, knows nothing of a move. What it has of the group is old, if it has anything.
func TestASharedEtcdThatHasLostItsRecordServesNothing(t *testing.T) {
	t.Parallel()
	for name, old := range map[string]bool{"without objects": false, "with old objects": true} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			e := startEtcds(t)
			s := e.storage(t, true)
			require.NoError(t, create(t, s, "a"))
			require.False(t, has(t, e.shared), "the group has claimed its own etcd")
			answer, err := e.own.Get(t.Context(), KeysOf("/registry", "example.com").Record)
			require.NoError(t, err)
			require.Len(t, answer.Kvs, 1)
			require.NotContains(t, string(answer.Kvs[0].Value), "pending", "the shared etcd knows of it")

			_, err = e.shared.Delete(t.Context(), KeysOf("/registry", "example.com").Fence, clientv3.WithPrefix())
			require.NoError(t, err)
			if old {
				_, err = e.shared.Put(t.Context(), "/registry/example.com/boats/old", "{}")
				require.NoError(t, err)
			}
			err = create(t, e.storage(t, true), "b")
			assert.True(t, apierrors.IsServiceUnavailable(err), "%v", err)
			assert.ErrorContains(t, err, "does not know of that any more")
			assert.Equal(t, old, has(t, e.shared), "nothing is written there")
		})
	}
}

// write raises the revision of an etcd, as writes of other groups do.
func write(t *testing.T, client *clientv3.Client, times int) {
	t.Helper()
	for range times {
		_, err := client.Put(t.Context(), "/registry/configmaps/default/a", "")
		require.NoError(t, err)
	}
}

// A client may have listed the group while it was empty in the shared etcd, of which the revision is later.
func TestAGroupThatGoesToItsOwnEtcdHidesNoEvents(t *testing.T) {
	t.Parallel()
	e := startEtcds(t)
	write(t, e.shared, 300)
	before := list(t, e.storage(t, false)).GetResourceVersion()
	s := e.storage(t, true)
	requireExpired(t, s, before)
	require.NoError(t, create(t, s, "a"))
	requireExpired(t, s, before)
	exact := storage.ListOptions{ResourceVersion: before, Recursive: true, Predicate: storage.Everything}
	exact.Predicate.Limit = 10
	assert.True(t, apierrors.IsResourceExpired(s.GetList(t.Context(), directory, exact, &unstructured.UnstructuredList{})), "a list with a limit is exact")
	after := list(t, s).GetResourceVersion()
	assert.Greater(t, versionOf(after), versionOf(before))
	require.NoError(t, create(t, s, "b"))
	requireAdded(t, s, after, "b")
}

func TestAGroupStaysWhileItsOwnEtcdIsFarBehind(t *testing.T) {
	t.Parallel()
	e := startEtcds(t)
	write(t, e.shared, 300)
	groups := e.groups(t, true)
	groups.farthest = 200
	require.NoError(t, create(t, e.storageOf(t, groups), "a"))
	assert.True(t, has(t, e.shared))
	e.requireReader(t)
}

func TestAResourceVersionBeyondTheEtcdIsRefused(t *testing.T) {
	t.Parallel()
	e := startEtcds(t)
	s := e.storage(t, true)
	require.NoError(t, create(t, s, "a"))
	const beyond = "1000000"
	requireExpired(t, s, beyond)
	for name, opts := range map[string]storage.ListOptions{
		"not older than": {ResourceVersion: beyond, ResourceVersionMatch: metav1.ResourceVersionMatchNotOlderThan},
		"exact":          {ResourceVersion: beyond, ResourceVersionMatch: metav1.ResourceVersionMatchExact},
		"any":            {ResourceVersion: beyond},
	} {
		opts.Recursive, opts.Predicate = true, storage.Everything
		err := s.GetList(t.Context(), directory, opts, &unstructured.UnstructuredList{})
		assert.True(t, storage.IsTooLargeResourceVersion(err), "%s: %v", name, err)
	}
	err := s.Get(t.Context(), directory+"/a", storage.GetOptions{ResourceVersion: beyond}, &unstructured.Unstructured{})
	assert.True(t, storage.IsTooLargeResourceVersion(err), "%v", err)
	_, err = s.Watch(t.Context(), directory, storage.ListOptions{ResourceVersion: beyond, Recursive: true, Predicate: storage.Everything, SendInitialEvents: new(true)})
	assert.True(t, storage.IsTooLargeResourceVersion(err), "%v", err)
	rest := storage.ListOptions{Recursive: true, Predicate: storage.Everything}
	rest.Predicate.Continue, err = storage.EncodeContinue(directory+"/a", directory+"/", 1_000_000)
	require.NoError(t, err)
	assert.True(t, apierrors.IsResourceExpired(s.GetList(t.Context(), directory, rest, &unstructured.UnstructuredList{})), "the rest of a list")
	// What another replica has written is not beyond.
	other := e.storage(t, true)
	_ = list(t, other)
	write(t, e.own, 5)
	require.NoError(t, create(t, s, "b"))
	last := list(t, s).GetResourceVersion()
	require.NoError(t, create(t, s, "c"))
	requireAdded(t, other, last, "c")
}

// requireExpired fails the test unless a watch from a resourceVersion has to list again.
func requireExpired(t *testing.T, s storage.Interface, version string) {
	t.Helper()
	event := first(t, s, version)
	require.Equal(t, watch.Error, event.Type)
	assert.True(t, apierrors.IsResourceExpired(apierrors.FromObject(event.Object)))
}

func requireAdded(t *testing.T, s storage.Interface, version, name string) {
	t.Helper()
	event := first(t, s, version)
	require.Equal(t, watch.Added, event.Type)
	assert.Equal(t, name, event.Object.(*unstructured.Unstructured).GetName())
}

// first returns the first event of a watch.
func first(t *testing.T, s storage.Interface, version string) watch.Event {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), waitTimeout)
	defer cancel()
	watching, err := s.Watch(ctx, directory, storage.ListOptions{ResourceVersion: version, Recursive: true, Predicate: storage.Everything})
	require.NoError(t, err)
	defer watching.Stop()
	return <-watching.ResultChan()
}

func TestWritesPause(t *testing.T) {
	t.Parallel()
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
	own, shared := r, r
	if r.Own {
		shared.Floor = 0
	} else {
		own.Floor = 0
	}
	put(t, e.own, own)
	put(t, e.shared, shared)
}

func TestAReplicaFollowsAMove(t *testing.T) {
	t.Parallel()
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
	require.Eventually(t, func() bool { return create(t, s, "b") == nil }, waitTimeout, 10*time.Millisecond, "writes go on")
	assert.True(t, has(t, e.own))
	again, err := s.Watch(t.Context(), directory, storage.ListOptions{ResourceVersion: before, Recursive: true, Predicate: storage.Everything})
	require.NoError(t, err)
	refusal := <-again.ResultChan()
	assert.Equal(t, watch.Error, refusal.Type)
	assert.True(t, apierrors.IsResourceExpired(apierrors.FromObject(refusal.Object)))
	exact := storage.ListOptions{ResourceVersion: before, ResourceVersionMatch: metav1.ResourceVersionMatchExact, Recursive: true, Predicate: storage.Everything}
	assert.True(t, apierrors.IsResourceExpired(s.GetList(t.Context(), directory, exact, &unstructured.UnstructuredList{})))

	e.move(t, Record{Move: "second", Floor: floor})
	require.Eventually(t, func() bool { return create(t, s, "c") == nil }, waitTimeout, 10*time.Millisecond, "writes go on")
	assert.Len(t, list(t, s).Items, 2, "a and c in the shared etcd")
}

// interrupted is a storage before whose answers something happens.
type interrupted struct {
	storage.Interface
	before func()
}

func (i interrupted) Get(ctx context.Context, key string, opts storage.GetOptions, into runtime.Object) error {
	i.before()
	return i.Interface.Get(ctx, key, opts, into)
}

func (i interrupted) GetList(ctx context.Context, key string, opts storage.ListOptions, list runtime.Object) error {
	i.before()
	return i.Interface.GetList(ctx, key, opts, list)
}

// Reads go on during a move, also those that a replica has begun when the objects leave.
func TestAReadThatTheObjectsLeaveIsRepeated(t *testing.T) {
	t.Parallel()
	const boat = "/registry/example.com/boats/a"
	for name, read := range map[string]func(*testing.T, storage.Interface){
		"get": func(t *testing.T, s storage.Interface) {
			t.Helper()
			require.NoError(t, s.Get(t.Context(), directory+"/a", storage.GetOptions{}, &unstructured.Unstructured{}))
		},
		"list": func(t *testing.T, s storage.Interface) {
			t.Helper()
			assert.Len(t, list(t, s).Items, 1)
		},
	} {
		for _, cached := range []bool{false, true} {
			t.Run(fmt.Sprintf("%s, cached: %t", name, cached), func(t *testing.T) {
				t.Parallel()
				e := startEtcds(t)
				require.NoError(t, create(t, e.storage(t, false), "a"))
				copied, err := e.shared.Get(t.Context(), boat)
				require.NoError(t, err)
				move := sync.OnceFunc(func() {
					_, err := e.own.Put(t.Context(), boat, string(copied.Kvs[0].Value))
					require.NoError(t, err)
					put(t, e.own, Record{Own: true, Move: "first", Pending: true})
					put(t, e.shared, Record{Own: true, Move: "first"})
					_, err = e.shared.Delete(t.Context(), boat)
					require.NoError(t, err)
				})
				s := e.storageWith(t, e.groups(t, true), cached)
				placed := s.Interface.(*placed)
				make, before := placed.make, func() {}
				placed.make = func(p *place) (storage.Interface, factory.DestroyFunc, error) {
					made, destroy, err := make(p)
					return interrupted{made, func() { before() }}, destroy, err
				}
				require.NoError(t, s.Get(t.Context(), directory+"/a", storage.GetOptions{}, &unstructured.Unstructured{}))
				require.Eventually(t, func() bool { return s.ReadinessCheck() == nil }, waitTimeout, 10*time.Millisecond)
				before = move
				read(t, s)
				assert.True(t, placed.made.place.own)
			})
		}
	}
}

// A move deletes objects where they were. A replica that has not read the move yet must not take that for deletions.
func TestWhatAMoveDeletesIsNotGone(t *testing.T) {
	t.Parallel()
	const boat = "/registry/example.com/boats/a"
	for name, from := range map[string]struct {
		here, left Record
		without    bool
	}{
		"from the shared etcd": {here: Record{Move: "none"}, left: Record{Own: true, Move: "first"}},
		"from the shared etcd, at a replica without the own one": {left: Record{Own: true, Move: "first"}, without: true},
		"from its own, unheard of in the shared one":             {here: Record{Own: true, Move: "first"}, left: Record{Move: "first", Left: true}},
	} {
		for _, cached := range []bool{false, true} {
			t.Run(fmt.Sprintf("%s, cached: %t", name, cached), func(t *testing.T) {
				t.Parallel()
				for n := range 4 {
					e := startEtcds(t)
					etcd := e.shared
					if from.here.Own {
						etcd = e.own
						e.move(t, from.here)
					} else if from.here != (Record{}) {
						put(t, e.shared, from.here)
					}
					s := e.storageWith(t, e.groups(t, !from.without), cached)
					require.NoError(t, create(t, s, "a"))
					require.Eventually(t, func() bool { return s.ReadinessCheck() == nil }, waitTimeout, 10*time.Millisecond)
					watching, err := s.Watch(t.Context(), directory, storage.ListOptions{
						ResourceVersion: list(t, s).GetResourceVersion(), Recursive: true, Predicate: storage.Everything,
					})
					require.NoError(t, err)
					_, err = etcd.Txn(t.Context()).Then(keysOfTest.Put(from.left), clientv3.OpDelete(boat)).Commit()
					require.NoError(t, err)
					s.requireNotGone(t, watching, n%2 == 0)
				}
			})
		}
	}
}

// requireNotGone fails the test if a reader observes that the boat is gone.
func (s stored) requireNotGone(t *testing.T, watching watch.Interface, listFirst bool) {
	t.Helper()
	get := func() {
		err := s.Get(t.Context(), directory+"/a", storage.GetOptions{}, &unstructured.Unstructured{})
		requireUnavailable(t, err, "the API group example.com is unavailable")
	}
	if !listFirst {
		get()
	}
	for _, version := range []string{"", "0"} {
		opts, found := storage.ListOptions{ResourceVersion: version, Recursive: true, Predicate: storage.Everything}, &unstructured.UnstructuredList{}
		if err := s.GetList(t.Context(), directory, opts, found); err == nil {
			assert.Len(t, found.Items, 1, "a list from %q", version)
		}
	}
	if listFirst {
		get()
	}
	for event := range watching.ResultChan() {
		assert.NotEqual(t, watch.Deleted, event.Type)
	}
}

func TestAnEtcdWithoutTheObjectsIsNotUsed(t *testing.T) {
	t.Parallel()
	e := startEtcds(t)
	e.move(t, Record{Own: true, Move: "first"})
	for name, test := range map[string]struct {
		e      etcds
		hasOwn bool
		want   string
	}{
		"another one":                 {etcds{e.shared, etcdtest.Start(t)}, true, "does not have its objects"},
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
	t.Parallel()
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
	t.Parallel()
	e := startEtcds(t)
	for _, name := range []string{"boats.example.com", "cars.example.com", "boats.example.org"} {
		_, err := e.shared.Put(t.Context(), "/registry/apiextensions.k8s.io/customresourcedefinitions/"+name, "")
		require.NoError(t, err)
	}
	serves := func(groups ...string) func(string) bool {
		return func(group string) bool { return len(groups) == 0 || groups[0] == group }
	}
	require.NoError(t, e.groups(t, false).Check(t.Context(), serves()))
	put(t, e.shared, Record{Own: true, Move: "first"})
	err := e.groups(t, false).Check(t.Context(), serves())
	require.ErrorContains(t, err, "extensions-big cannot serve the API group example.com: its objects are in an etcd of their own; "+
		"give --group-etcd-servers, or move them by tripod migrate groups --to extensions example.com")
	require.NoError(t, e.groups(t, false).Check(t.Context(), serves("example.org")), "a group of another partition")
	require.NoError(t, e.groups(t, true).Check(t.Context(), serves()))
}

func TestAStorageThatIsDestroyedIsNotMadeAgain(t *testing.T) {
	t.Parallel()
	e := startEtcds(t)
	groups := e.groups(t, false)
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

// A group without resources is not followed. Who may create definitions could otherwise have as many followed as there are names.
// The test looks at all goroutines, those of tests beside it too, and so it is not parallel.
func TestAGroupThatIsNotUsedIsForgotten(t *testing.T) {
	e := startEtcds(t)
	groups := e.groups(t, false)
	make := groups.Decorate(func(etcdclient.NewRawStorage) generic.StorageDecorator {
		return func(*storagebackend.ConfigForResource, string, func(runtime.Object) (string, error), func() runtime.Object, func() runtime.Object,
			storage.AttrFunc, storage.IndexerFuncs, *cache.Indexers,
		) (storage.Interface, factory.DestroyFunc, error) {
			return &nothing{}, func() {}, nil
		}
	})
	use := func(group, resource string) (destroy func()) {
		s, destroy, err := make(groups.Shared.ForResource(schema.GroupResource{Group: group, Resource: resource}), "", nil, nil, nil, nil, nil, nil)
		require.NoError(t, err)
		_, release, err := s.(*placed).use(t.Context())
		require.NoError(t, err)
		release()
		return destroy
	}
	var destroys []func()
	for n := range 20 {
		group := fmt.Sprintf("group%d.example.com", n)
		destroys = append(destroys, use(group, "boats"), use(group, "cars"))
	}
	following := groups.byName["group7.example.com"].current.Load().context
	for n, destroy := range destroys {
		if n%2 == 0 {
			destroy()
			destroy()
		}
	}
	assert.Len(t, groups.byName, 20, "each has another resource")
	require.NoError(t, following.Err())
	for n, destroy := range destroys {
		if n%2 != 0 {
			destroy()
		}
	}
	assert.Empty(t, groups.byName)
	require.Error(t, following.Err())
	require.Eventually(t, func() bool { return !strings.Contains(goroutines(), "(*place).follow") }, waitTimeout, 10*time.Millisecond)
	use("group7.example.com", "boats")()
}

// goroutines returns the stacks of all goroutines.
func goroutines() string {
	var stacks strings.Builder
	pprof.Lookup("goroutine").WriteTo(&stacks, 1) //nolint:errcheck // a Builder takes all
	return stacks.String()
}
