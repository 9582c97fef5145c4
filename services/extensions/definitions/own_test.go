// Copyright The Tripod Authors.
// SPDX-License-Identifier: Apache-2.0

package definitions

import (
	"context"
	"path"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"k8s.io/apiextensions-apiserver/pkg/apis/apiextensions"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	apiextensionsapiserver "k8s.io/apiextensions-apiserver/pkg/apiserver"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/apiserver/pkg/registry/generic"
	"k8s.io/apiserver/pkg/storage"
	"k8s.io/apiserver/pkg/storage/etcd3/testserver"
	"k8s.io/apiserver/pkg/storage/storagebackend"
	"k8s.io/apiserver/pkg/storage/value"
	"k8s.io/apiserver/pkg/storage/value/encrypt/identity"

	"github.com/tripod-k8s/tripod/base/storage/etcdclient"
	"github.com/tripod-k8s/tripod/services/shared/partitions"
)

const prefix = "/apiextensions.k8s.io/customresourcedefinitions"

var big = Partition{partitions.Table{"big": {"*.example.com"}, "other": {"example.org"}}, "big"}

// decoded notes the definitions whose values were decoded.
type decoded struct {
	value.Transformer
	mu    sync.Mutex
	names []string
}

func (d *decoded) TransformFromStorage(ctx context.Context, data []byte, at value.Context) ([]byte, bool, error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.names = append(d.names, path.Base(string(at.AuthenticatedData())))
	return d.Transformer.TransformFromStorage(ctx, data, at)
}

func (d *decoded) all() []string {
	d.mu.Lock()
	defer d.mu.Unlock()
	return slices.Compact(slices.Sorted(slices.Values(d.names)))
}

type etcd struct {
	config *storagebackend.ConfigForResource
	// everything is the storage of all definitions.
	everything storage.Interface
	decoded    *decoded
}

func newFunc() runtime.Object     { return &apiextensions.CustomResourceDefinition{} }
func newListFunc() runtime.Object { return &apiextensions.CustomResourceDefinitionList{} }

func startEtcd(t *testing.T) *etcd {
	t.Helper()
	e := &etcd{decoded: &decoded{Transformer: identity.NewEncryptCheckTransformer()}}
	config := storagebackend.NewDefaultConfig("/registry", apiextensionsapiserver.Codecs.LegacyCodec(apiextensionsv1.SchemeGroupVersion))
	config.Transport.ServerList = testserver.RunEtcd(t, nil).Endpoints()
	config.CompactionInterval = 0
	all := config.ForResource(Resource)
	var destroy func()
	var err error
	e.everything, destroy, err = (&etcdclient.Clients{}).NewStorage(all, newFunc, newListFunc, prefix)
	require.NoError(t, err)
	t.Cleanup(destroy)
	own := *all
	own.Transformer = e.decoded
	e.config = &own
	return e
}

func (e *etcd) create(t *testing.T, names ...string) {
	t.Helper()
	for _, name := range names {
		crd := &apiextensions.CustomResourceDefinition{ObjectMeta: metav1.ObjectMeta{Name: name}}
		require.NoError(t, e.everything.Create(t.Context(), prefix+"/"+name, crd, nil, 0))
	}
}

// own is the storage of a replica of a partition, with or without a watch cache.
func (e *etcd) own(t *testing.T, partition Partition, cached bool) storage.Interface {
	t.Helper()
	made, destroy, err := etcdclient.Decorator(partition.raw(&etcdclient.Clients{}), cached)(e.config, prefix,
		func(object runtime.Object) (string, error) {
			return prefix + "/" + object.(*apiextensions.CustomResourceDefinition).Name, nil
		},
		newFunc, newListFunc, storage.DefaultClusterScopedAttr, nil, nil)
	require.NoError(t, err)
	t.Cleanup(destroy)
	require.Eventually(t, func() bool { return made.ReadinessCheck() == nil }, time.Minute, 10*time.Millisecond, "the watch cache is ready")
	return made
}

// nameIn returns the name of the definition in an event.
func nameIn(event watch.Event) string {
	object := event.Object
	if cached, ok := object.(runtime.CacheableObject); ok {
		object = cached.GetObject()
	}
	return object.(*apiextensions.CustomResourceDefinition).Name
}

func names(list runtime.Object) []string {
	var found []string
	for _, crd := range list.(*apiextensions.CustomResourceDefinitionList).Items {
		found = append(found, crd.Name)
	}
	slices.Sort(found)
	return found
}

func TestAPartitionHasItsOwnDefinitions(t *testing.T) {
	e := startEtcd(t)
	e.create(t, "boats.a.example.com", "boats.example.com", "boats.example.org", "cars.b.example.com", "planes.x")
	own := e.own(t, big, false)
	list := newListFunc()
	require.NoError(t, own.GetList(t.Context(), prefix, storage.ListOptions{Recursive: true, Predicate: storage.Everything}, list))
	assert.Equal(t, []string{"boats.a.example.com", "cars.b.example.com"}, names(list))

	version := list.(*apiextensions.CustomResourceDefinitionList).ResourceVersion
	watching, err := own.Watch(t.Context(), prefix, storage.ListOptions{ResourceVersion: version, Recursive: true, Predicate: storage.Everything})
	require.NoError(t, err)
	defer watching.Stop()
	e.create(t, "trains.example.org", "trains.c.example.com")
	require.NoError(t, e.everything.Delete(t.Context(), prefix+"/planes.x", newFunc(), nil, storage.ValidateAllObjectFunc, nil, storage.DeleteOptions{}))
	require.NoError(t, e.everything.Delete(
		t.Context(), prefix+"/cars.b.example.com", newFunc(), nil, storage.ValidateAllObjectFunc, nil, storage.DeleteOptions{}))
	for _, want := range []struct {
		event watch.EventType
		name  string
	}{{watch.Added, "trains.c.example.com"}, {watch.Deleted, "cars.b.example.com"}} {
		got := <-watching.ResultChan()
		assert.Equal(t, want.event, got.Type)
		assert.Equal(t, want.name, nameIn(got))
	}
	assert.Equal(t, []string{"boats.a.example.com", "cars.b.example.com", "trains.c.example.com"}, e.decoded.all(), "decoded")

	require.NoError(t, own.Get(t.Context(), prefix+"/boats.a.example.com", storage.GetOptions{}, newFunc()))
	assert.True(t, storage.IsNotFound(own.Get(t.Context(), prefix+"/boats.example.org", storage.GetOptions{}, newFunc())))
	one := newListFunc()
	require.NoError(t, own.GetList(t.Context(), prefix+"/boats.example.org", storage.ListOptions{Predicate: storage.Everything}, one))
	assert.Empty(t, names(one), "a list of one definition of another partition")
}

func TestTheInformerOfAPartitionListsFirst(t *testing.T) {
	e := startEtcd(t)
	e.create(t, "boats.a.example.com", "boats.example.org")
	own, send := e.own(t, big, false), true
	_, err := own.Watch(t.Context(), prefix, storage.ListOptions{SendInitialEvents: &send, Recursive: true, Predicate: storage.Everything})
	require.ErrorIs(t, err, errListFirst)
	assert.Empty(t, e.decoded.all(), "decoded")
}

func TestBookmarksShowTheProgressOfOthers(t *testing.T) {
	e := startEtcd(t)
	own := e.own(t, big, false)
	list := newListFunc()
	require.NoError(t, own.GetList(t.Context(), prefix, storage.ListOptions{Recursive: true, Predicate: storage.Everything}, list))
	version := list.(*apiextensions.CustomResourceDefinitionList).ResourceVersion
	predicate := storage.Everything
	predicate.AllowWatchBookmarks = true
	watching, err := own.Watch(t.Context(), prefix, storage.ListOptions{ResourceVersion: version, Recursive: true, Predicate: predicate})
	require.NoError(t, err)
	defer watching.Stop()
	e.create(t, "boats.example.org")
	require.Eventually(t, func() bool {
		require.NoError(t, own.RequestWatchProgress(t.Context()))
		select {
		case event := <-watching.ResultChan():
			assert.Equal(t, watch.Bookmark, event.Type)
			return event.Object.(*apiextensions.CustomResourceDefinition).ResourceVersion != version
		default:
			return false
		}
	}, time.Minute, 10*time.Millisecond, "a bookmark is past the definition of another partition")
	assert.Empty(t, e.decoded.all(), "decoded")
}

func TestAPartitionOfNothingYet(t *testing.T) {
	e := startEtcd(t)
	e.create(t, "boats.example.org")
	list := newListFunc()
	require.NoError(t, e.own(t, big, false).GetList(t.Context(), prefix, storage.ListOptions{Recursive: true, Predicate: storage.Everything}, list))
	assert.Empty(t, names(list))
	assert.NotEmpty(t, list.(*apiextensions.CustomResourceDefinitionList).ResourceVersion)
	assert.Empty(t, e.decoded.all(), "decoded")
}

func TestAPartitionDoesNotWriteDefinitions(t *testing.T) {
	e := startEtcd(t)
	e.create(t, "boats.a.example.com")
	own := e.own(t, big, false)
	const key = prefix + "/boats.a.example.com"
	require.ErrorIs(t, own.Create(t.Context(), prefix+"/cars.a.example.com", newFunc(), nil, 0), errReadOnly)
	require.ErrorIs(t, own.Delete(t.Context(), key, newFunc(), nil, storage.ValidateAllObjectFunc, nil, storage.DeleteOptions{}), errReadOnly)
	require.ErrorIs(t, own.GuaranteedUpdate(t.Context(), key, newFunc(), false, nil,
		func(input runtime.Object, _ storage.ResponseMeta) (runtime.Object, *uint64, error) {
			return input, nil, nil
		}, nil), errReadOnly)
	require.NoError(t, own.Get(t.Context(), key, storage.GetOptions{}, newFunc()), "it is still there")
}

func TestMarkedRequestsOfTheDefaultPartition(t *testing.T) {
	e := startEtcd(t)
	e.create(t, "boats.a.example.com", "boats.example.com", "boats.example.org", "planes.x")
	everything := e.own(t, Partition{}, true) // a table without partitions leaves nothing out
	narrow := narrowed{everything, Partition{big.Table, partitions.Default}}
	marked := context.WithValue(t.Context(), markKey{}, true)
	for name, test := range map[string]struct {
		ctx  context.Context
		want []string
	}{
		"of a client":       {t.Context(), []string{"boats.a.example.com", "boats.example.com", "boats.example.org", "planes.x"}},
		"of its controller": {marked, []string{"boats.example.com", "planes.x"}},
	} {
		list := newListFunc()
		require.NoError(t, narrow.GetList(test.ctx, prefix, storage.ListOptions{Recursive: true, Predicate: storage.Everything}, list))
		assert.Equal(t, test.want, names(list), name)
	}
	watching, err := narrow.Watch(marked, prefix, storage.ListOptions{ResourceVersion: "0", Recursive: true, Predicate: storage.Everything})
	require.NoError(t, err)
	defer watching.Stop()
	e.create(t, "a.example.org", "z.y")
	var seen []string
	for range 3 {
		seen = append(seen, nameIn(<-watching.ResultChan()))
	}
	assert.ElementsMatch(t, []string{"boats.example.com", "planes.x", "z.y"}, seen)
}

var _ generic.RESTOptionsGetter = decorated{}
