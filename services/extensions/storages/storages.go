// Copyright The Tripod Authors.
// SPDX-License-Identifier: Apache-2.0

// Package storages creates the storages of custom resources: one for each version of a CustomResourceDefinition that clients asked this
// replica for. Each is in the etcd of its API group, and uses the client that the replica has for that. Each has a watch cache, and resumes
// watches that are older than the cache.
package storages

import (
	"sync"

	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apiserver/pkg/registry/generic"
	"k8s.io/apiserver/pkg/storage"
	"k8s.io/apiserver/pkg/storage/storagebackend"
	"k8s.io/apiserver/pkg/storage/storagebackend/factory"
	"k8s.io/component-base/metrics"
	"k8s.io/component-base/metrics/legacyregistry"

	"github.com/tripod-k8s/tripod/base/storage/etcdclient"
	"github.com/tripod-k8s/tripod/base/storage/placement"
	"github.com/tripod-k8s/tripod/base/storage/watchresume"
)

var materialised = metrics.NewGauge(&metrics.GaugeOpts{
	Name: "tripod_custom_resource_storages",
	Help: "Storages of custom resources, each with a watch cache, that this replica has made and keeps: " +
		"one for each version of a CustomResourceDefinition that it was asked for.",
	StabilityLevel: metrics.ALPHA,
})

// registerMetrics adds the metric to /metrics, which other services of the same program have without it.
var registerMetrics = sync.OnceFunc(func() { legacyregistry.MustRegister(materialised) })

// Getter returns the options of getter with storages in the etcds of groups. If cached, they have a watch cache.
func Getter(getter generic.RESTOptionsGetter, groups *placement.Groups, cached bool) generic.RESTOptionsGetter {
	registerMetrics()
	return sharing{getter: getter, decorate: groups.Decorate(func(raw etcdclient.NewRawStorage) generic.StorageDecorator {
		return watchresume.Decorate(etcdclient.Decorator(counted(raw), cached), raw)
	})}
}

type sharing struct {
	getter   generic.RESTOptionsGetter
	decorate generic.StorageDecorator
}

// GetRESTOptions implements generic.RESTOptionsGetter.
func (s sharing) GetRESTOptions(resource schema.GroupResource, example runtime.Object) (generic.RESTOptions, error) {
	options, err := s.getter.GetRESTOptions(resource, example)
	if err == nil {
		options.Decorator = s.decorate
	}
	return options, err
}

// counted counts the storages that newRaw creates, until they are destroyed.
func counted(newRaw etcdclient.NewRawStorage) etcdclient.NewRawStorage {
	return func(
		config *storagebackend.ConfigForResource, newFunc, newListFunc func() runtime.Object, resourcePrefix string,
	) (storage.Interface, factory.DestroyFunc, error) {
		made, destroy, err := newRaw(config, newFunc, newListFunc, resourcePrefix)
		if err != nil {
			return nil, nil, err
		}
		materialised.Inc()
		return made, sync.OnceFunc(func() {
			destroy()
			materialised.Dec()
		}), nil
	}
}
