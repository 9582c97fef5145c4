// Copyright The Tripod Authors.
// SPDX-License-Identifier: Apache-2.0

package etcdclient

import (
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apiserver/pkg/registry/generic"
	"k8s.io/apiserver/pkg/storage"
	"k8s.io/apiserver/pkg/storage/cacher"
	"k8s.io/apiserver/pkg/storage/storagebackend"
	"k8s.io/apiserver/pkg/storage/storagebackend/factory"
	"k8s.io/client-go/tools/cache"

	"github.com/tripod-k8s/tripod/base/tuning/beat"
)

// NewRawStorage makes the storage of a resource without a cache, like factory.Create of k8s.io/apiserver.
type NewRawStorage func(
	config *storagebackend.ConfigForResource, newFunc, newListFunc func() runtime.Object, resourcePrefix string,
) (storage.Interface, factory.DestroyFunc, error)

// Decorator returns a decorator that makes storages from those that newRaw makes. If cached, they have a watch cache.
func Decorator(newRaw NewRawStorage, cached bool) generic.StorageDecorator {
	if cached {
		return withCache(newRaw)
	}
	return withoutCache(newRaw)
}

func withoutCache(newRaw NewRawStorage) generic.StorageDecorator {
	return func(
		config *storagebackend.ConfigForResource,
		resourcePrefix string,
		_ func(runtime.Object) (string, error),
		newFunc, newListFunc func() runtime.Object,
		_ storage.AttrFunc,
		_ storage.IndexerFuncs,
		_ *cache.Indexers,
	) (storage.Interface, factory.DestroyFunc, error) {
		return newRaw(config, newFunc, newListFunc, resourcePrefix)
	}
}

// withCache creates storages as registry.StorageWithCacher of k8s.io/apiserver does. That function always creates an etcd client of its
// own.
func withCache(newRaw NewRawStorage) generic.StorageDecorator {
	return func(
		config *storagebackend.ConfigForResource,
		resourcePrefix string,
		keyFunc func(runtime.Object) (string, error),
		newFunc, newListFunc func() runtime.Object,
		getAttrs storage.AttrFunc,
		trigger storage.IndexerFuncs,
		indexers *cache.Indexers,
	) (storage.Interface, factory.DestroyFunc, error) {
		raw, destroy, err := newRaw(config, newFunc, newListFunc, resourcePrefix)
		if err != nil {
			return nil, nil, err
		}
		cached, err := cacher.NewCacherFromConfig(cacher.Config{
			Storage:             raw,
			Versioner:           storage.APIObjectVersioner{},
			GroupResource:       config.GroupResource,
			EventsHistoryWindow: config.EventsHistoryWindow,
			ResourcePrefix:      resourcePrefix,
			KeyFunc:             keyFunc,
			NewFunc:             newFunc,
			NewListFunc:         newListFunc,
			GetAttrsFunc:        getAttrs,
			IndexerFuncs:        trigger,
			Indexers:            indexers,
			Codec:               config.Codec,
			Clock:               beat.NewClock(),
		})
		if err != nil {
			destroy()
			return nil, nil, err
		}
		delegator := cacher.NewCacheDelegator(cached, raw)
		return delegator, func() {
			delegator.Stop()
			cached.Stop()
			destroy()
		}, nil
	}
}
