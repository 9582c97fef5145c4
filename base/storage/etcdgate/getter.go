// Copyright The Tripod Authors.
// SPDX-License-Identifier: Apache-2.0

// Package etcdgate gives storages in etcd the gate of storages.Gated of apiservice. The gate is a key beside the objects, which each
// transaction of a write compares. So etcd itself refuses the writes of a replica, however long that was frozen or cut off.
package etcdgate

import (
	"context"
	"errors"
	"path"

	"go.etcd.io/etcd/api/v3/v3rpc/rpctypes"
	clientv3 "go.etcd.io/etcd/client/v3"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/apiserver/pkg/registry/generic"
	"k8s.io/apiserver/pkg/storage"
	"k8s.io/apiserver/pkg/storage/storagebackend"
	"k8s.io/apiserver/pkg/storage/storagebackend/factory"
	"k8s.io/client-go/tools/cache"

	"github.com/tripod-k8s/tripod/base/migration"
	"github.com/tripod-k8s/tripod/base/storage/etcdclient"
	"github.com/tripod-k8s/tripod/base/storage/watchresume"
)

// Getter returns a getter whose storages have a gate. A getter that is not the service's own is returned as it is.
func Getter(of generic.RESTOptionsGetter) generic.RESTOptionsGetter {
	own, ok := of.(watchresume.Getter)
	if !ok {
		return of
	}
	return getter{own.Through(Raw), own.Clients()}
}

// Raw makes storages without a cache that compare their gate in each write.
func Raw(clients *etcdclient.Clients) etcdclient.NewRawStorage {
	return func(
		config *storagebackend.ConfigForResource, newFunc, newListFunc func() runtime.Object, resourcePrefix string,
	) (storage.Interface, factory.DestroyFunc, error) {
		wrap := func(kv clientv3.KV) clientv3.KV {
			return fence(kv, keyOf(config, resourcePrefix), config.GroupResource)
		}
		return clients.Wrapped(wrap)(config, newFunc, newListFunc, resourcePrefix)
	}
}

// keyOf returns the key of the gate of a resource. It is in the directory of the resource, where the service may write. No resource has a
// name with a dot.
func keyOf(config *storagebackend.ConfigForResource, resourcePrefix string) string {
	directory, name := path.Split(path.Join("/", config.Prefix, resourcePrefix))
	return path.Join(directory, ".gates", name)
}

type getter struct {
	generic.RESTOptionsGetter
	clients *etcdclient.Clients
}

// GetRESTOptions implements generic.RESTOptionsGetter.
func (g getter) GetRESTOptions(resource schema.GroupResource, example runtime.Object) (generic.RESTOptions, error) {
	options, err := g.RESTOptionsGetter.GetRESTOptions(resource, example)
	if err == nil {
		options.Decorator = g.decorate(options.Decorator)
	}
	return options, err
}

// decorate returns a decorator that makes storages as decorator does, with the gate.
func (g getter) decorate(decorator generic.StorageDecorator) generic.StorageDecorator {
	return func(
		config *storagebackend.ConfigForResource, resourcePrefix string, keyFunc func(runtime.Object) (string, error),
		newFunc, newListFunc func() runtime.Object, attributes storage.AttrFunc, trigger storage.IndexerFuncs, indexers *cache.Indexers,
	) (storage.Interface, factory.DestroyFunc, error) {
		made, destroy, err := decorator(config, resourcePrefix, keyFunc, newFunc, newListFunc, attributes, trigger, indexers)
		if err != nil {
			return nil, destroy, err
		}
		client, err := g.clients.Client(&config.Config)
		if err != nil {
			destroy()
			return nil, nil, err
		}
		return New(made, client, config, resourcePrefix), destroy, nil
	}
}

// New returns a storage with its gate. Raw has made the storage, or that below it.
func New(of storage.Interface, kv clientv3.KV, config *storagebackend.ConfigForResource, resourcePrefix string) *Storage {
	return &Storage{of, kv, keyOf(config, resourcePrefix), maxRaise, etcdclient.RaiseKept}
}

// Storage is a storage with a gate. It implements storages.Gated of apiservice.
type Storage struct {
	storage.Interface
	kv  clientv3.KV
	key string
	// raise is by how many revisions one call of Raise raises etcd, and kept how many of these etcd has to keep.
	raise, kept int64
}

func (g *Storage) floorKey() string { return g.key + ".floor" }

// maxRaise bounds what one call of Raise does: so many writes take a few seconds.
const maxRaise = 50_000

// Raise raises the revision of etcd above the resourceVersions of another server. The revision of a key beside the gate is the floor.
func (g *Storage) Raise(ctx context.Context, move string, above int64) (floor int64, err error) {
	at, err := g.kv.Get(ctx, g.key)
	if err != nil {
		return 0, err
	}
	if moveIn(at.Kvs) != move {
		return 0, migration.ErrGate
	}
	now := at.Header.GetRevision()
	reached, err := etcdclient.Raise(ctx, g.kv, g.key+".raised", min(above, now+g.raise))
	// Calls that follow each other would fill etcd before its next compaction.
	if forget := reached - g.kept; err == nil && reached-now >= g.raise && forget > 0 {
		if err = etcdclient.Compact(ctx, g.kv, forget); errors.Is(err, rpctypes.ErrPermissionDenied) {
			err = nil // an etcd with users lets only root compact it, and has a compaction of its own
		}
	}
	if err != nil || reached <= above {
		return 0, err
	}
	answer, err := g.kv.Txn(ctx).If(is(g.key, move)).Then(clientv3.OpPut(g.floorKey(), move)).Commit()
	if err != nil {
		return 0, err
	}
	if !answer.Succeeded {
		return 0, migration.ErrGate
	}
	return answer.Header.GetRevision(), nil
}

// isExpired reports whether what has happened since a resourceVersion has happened at another server, or that is not known because etcd has
// not come to it.
func (g *Storage) isExpired(ctx context.Context, version uint64) (bool, error) {
	if version == 0 {
		return false, nil
	}
	answer, err := g.kv.Get(ctx, g.floorKey())
	if err != nil || len(answer.Kvs) == 0 {
		return false, err
	}
	return version < uint64(answer.Kvs[0].ModRevision) || version > uint64(answer.Header.GetRevision()), nil
}

func expired() *apierrors.StatusError {
	return apierrors.NewResourceExpired("too old resource version: the objects have come from another API server since")
}

// versionOf returns a resourceVersion, or 0 if there is none. The storage answers what is none.
func versionOf(text string) uint64 {
	version, err := storage.APIObjectVersioner{}.ParseResourceVersion(text)
	if err != nil {
		return 0
	}
	return version
}

// Watch implements storage.Interface. A watch from before the objects have come gets 410.
func (g *Storage) Watch(ctx context.Context, key string, opts storage.ListOptions) (watch.Interface, error) {
	if opts.SendInitialEvents == nil || !*opts.SendInitialEvents {
		is, err := g.isExpired(ctx, versionOf(opts.ResourceVersion))
		if err != nil {
			return nil, err
		}
		if is {
			events := make(chan watch.Event, 1)
			events <- watch.Event{Type: watch.Error, Object: &expired().ErrStatus}
			close(events)
			return watch.NewProxyWatcher(events), nil
		}
	}
	return g.Interface.Watch(ctx, key, opts)
}

// GetList implements storage.Interface. The states from before the objects have come are none of the server.
func (g *Storage) GetList(ctx context.Context, key string, opts storage.ListOptions, list runtime.Object) error {
	version := uint64(0)
	switch {
	case opts.Predicate.Continue != "":
		if _, of, err := storage.DecodeContinue(opts.Predicate.Continue, "/"); err == nil && of > 0 {
			version = uint64(of)
		}
	case opts.ResourceVersionMatch == metav1.ResourceVersionMatchExact || opts.ResourceVersionMatch == "" && opts.Predicate.Limit > 0:
		version = versionOf(opts.ResourceVersion)
	}
	if is, err := g.isExpired(ctx, version); err != nil || is {
		if is {
			err = expired()
		}
		return err
	}
	return g.Interface.GetList(ctx, key, opts, list)
}

// Gate returns the move that has closed the gate, or "".
func (g *Storage) Gate(ctx context.Context) (string, error) {
	answer, err := g.kv.Get(ctx, g.key)
	if err != nil {
		return "", err
	}
	return moveIn(answer.Kvs), nil
}

// SetGate changes the gate, or returns migration.ErrGate if it is not as from.
func (g *Storage) SetGate(ctx context.Context, from, to string) error {
	change := clientv3.OpPut(g.key, to)
	if to == "" {
		change = clientv3.OpDelete(g.key)
	}
	answer, err := g.kv.Txn(ctx).If(is(g.key, from)).Then(change).Commit()
	if err == nil && !answer.Succeeded {
		err = migration.ErrGate
	}
	return err
}
