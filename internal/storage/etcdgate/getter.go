// Copyright The Tripod Authors.
// SPDX-License-Identifier: Apache-2.0

// Package etcdgate gives storages in etcd the gate of storages.Gated of apiservice. The gate is a key beside the objects, which each
// transaction of a write compares. So etcd itself refuses the writes of a replica, however long that was frozen or cut off.
package etcdgate

import (
	"context"
	"path"

	clientv3 "go.etcd.io/etcd/client/v3"

	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apiserver/pkg/registry/generic"
	"k8s.io/apiserver/pkg/storage"
	"k8s.io/apiserver/pkg/storage/storagebackend"
	"k8s.io/apiserver/pkg/storage/storagebackend/factory"
	"k8s.io/client-go/tools/cache"

	"github.com/tripod-k8s/tripod/internal/migration"
	"github.com/tripod-k8s/tripod/internal/storage/etcdclient"
	"github.com/tripod-k8s/tripod/internal/storage/watchresume"
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
	return &Storage{of, kv, keyOf(config, resourcePrefix)}
}

// Storage is a storage with a gate. It implements storages.Gated of apiservice.
type Storage struct {
	storage.Interface
	kv  clientv3.KV
	key string
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
