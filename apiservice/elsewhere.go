// Copyright The Tripod Authors.
// SPDX-License-Identifier: Apache-2.0

package apiservice

import (
	"path"
	"sync"

	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apiserver/pkg/registry/generic"
	"k8s.io/apiserver/pkg/storage"
	"k8s.io/apiserver/pkg/storage/storagebackend"
	"k8s.io/apiserver/pkg/storage/storagebackend/factory"
	"k8s.io/client-go/tools/cache"

	"github.com/tripod-k8s/tripod/apiservice/storages"
)

// elsewhere has the registry of Kubernetes keep the objects of a resource in an author's storage.
type elsewhere struct {
	open          storages.Open
	types         *types
	clusterScoped bool
	admit         func(object, old runtime.Object) error
}

var _ generic.RESTOptionsGetter = elsewhere{}

// GetRESTOptions implements generic.RESTOptionsGetter.
func (e elsewhere) GetRESTOptions(resource schema.GroupResource, _ runtime.Object) (generic.RESTOptions, error) {
	config := storagebackend.NewDefaultConfig("", e.types.codecs.LegacyCodec(e.types.storage...))
	config.EncodeVersioner = e.types.storage
	return generic.RESTOptions{
		StorageConfig:           config.ForResource(resource),
		Decorator:               e.decorate,
		EnableGarbageCollection: true,
		DeleteCollectionWorkers: 1,
		ResourcePrefix:          path.Join("/", resource.Group, resource.Resource),
	}, nil
}

// decorate is a generic.StorageDecorator. There is no watch cache around the storage: watches are the storage's own.
func (e elsewhere) decorate(
	config *storagebackend.ConfigForResource, prefix string, _ func(runtime.Object) (string, error), newObject, newList func() runtime.Object,
	_ storage.AttrFunc, _ storage.IndexerFuncs, _ *cache.Indexers,
) (storage.Interface, factory.DestroyFunc, error) {
	store, stop, err := e.open(storages.Resource{
		GroupResource: config.GroupResource, Prefix: prefix + "/", ClusterScoped: e.clusterScoped, Admit: e.admit,
		Codec: config.Codec, New: newObject, NewList: newList,
	})
	if stop != nil { // each served version has a registry, and each of these stops it
		stop = sync.OnceFunc(stop)
	}
	return store, stop, err
}
