// Copyright The Tripod Authors.
// SPDX-License-Identifier: Apache-2.0

// Package watchresume lets watches go on at a replica whose watch cache is younger than they are. The cache knows what happened
// since it was made; kube-apiserver answers 410 Gone to a client that asks for an earlier resourceVersion, and lists everything
// again. Here it is served from etcd, which keeps the last minutes, until it has come to what the cache knows.
//
// With one kube-apiserver, a cache is younger than a watch only after a restart. With replicas, watches move to other
// caches whenever a replica goes; and those of custom resources are made when they are first asked for.
package watchresume

import (
	"context"
	"errors"
	"net/http"
	"sync"
	"sync/atomic"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/apiserver/pkg/registry/generic"
	genericapiserver "k8s.io/apiserver/pkg/server"
	genericoptions "k8s.io/apiserver/pkg/server/options"
	"k8s.io/apiserver/pkg/storage"
	"k8s.io/apiserver/pkg/storage/cacher"
	etcdfeature "k8s.io/apiserver/pkg/storage/feature"
	"k8s.io/apiserver/pkg/storage/storagebackend"
	"k8s.io/apiserver/pkg/storage/storagebackend/factory"
	"k8s.io/client-go/tools/cache"

	"github.com/tripod-k8s/tripod/base/storage/etcdclient"
)

// firstFill bounds how long a request waits for a cache that was just made; then it gets Retry-After, as from
// kube-apiserver.
const firstFill = 5 * time.Second

// Apply lets the storages that are made from config's options share an etcd client and continue older watches. A server without etcd has
// none.
func Apply(config *genericapiserver.Config, etcd *genericoptions.EtcdOptions) error {
	if config.RESTOptionsGetter == nil {
		return nil
	}
	sizes, err := genericoptions.ParseWatchCacheSizes(etcd.WatchCacheSizes)
	if err != nil {
		return err
	}
	config.RESTOptionsGetter = continuingGetter{
		getter: config.RESTOptionsGetter, clients: &etcdclient.Clients{},
		// The rule of StorageFactoryRestOptionsFactory.GetRESTOptions of k8s.io/apiserver.
		cached: func(resource schema.GroupResource) bool {
			size, given := sizes[resource]
			return etcd.EnableWatchCache && (!given || size > 0)
		},
	}
	return nil
}

// Getter is a getter of options that [Apply] sets.
type Getter interface {
	generic.RESTOptionsGetter
	// Through returns a getter whose storages are made by way of what newRaw returns. The clients are those of the getter.
	Through(newRaw func(*etcdclient.Clients) etcdclient.NewRawStorage) generic.RESTOptionsGetter
	// Clients are the etcd clients of the getter.
	Clients() *etcdclient.Clients
}

type continuingGetter struct {
	getter  generic.RESTOptionsGetter
	clients *etcdclient.Clients
	cached  func(schema.GroupResource) bool
	// raw is another way to make storages without a cache. It may be nil.
	raw etcdclient.NewRawStorage
}

var _ Getter = continuingGetter{}

// Through implements Getter.
func (g continuingGetter) Through(newRaw func(*etcdclient.Clients) etcdclient.NewRawStorage) generic.RESTOptionsGetter {
	g.raw = newRaw(g.clients)
	return g
}

// Clients implements Getter.
func (g continuingGetter) Clients() *etcdclient.Clients { return g.clients }

// GetRESTOptions implements generic.RESTOptionsGetter.
func (g continuingGetter) GetRESTOptions(resource schema.GroupResource, example runtime.Object) (generic.RESTOptions, error) {
	options, err := g.getter.GetRESTOptions(resource, example)
	if err == nil {
		raw := g.raw
		if raw == nil {
			raw = g.clients.NewStorage
		}
		options.Decorator = Decorate(etcdclient.Decorator(raw, g.cached(resource)), raw)
	}
	return options, err
}

// Decorate returns a decorator that makes storages as decorate does. Those with a watch cache continue older watches from a storage
// that newRaw makes when it is first needed.
func Decorate(decorate generic.StorageDecorator, newRaw etcdclient.NewRawStorage) generic.StorageDecorator {
	return func(
		config *storagebackend.ConfigForResource,
		resourcePrefix string,
		keyFunc func(runtime.Object) (string, error),
		newFunc, newListFunc func() runtime.Object,
		getAttrs storage.AttrFunc,
		trigger storage.IndexerFuncs,
		indexers *cache.Indexers,
	) (storage.Interface, factory.DestroyFunc, error) {
		made, destroy, err := decorate(config, resourcePrefix, keyFunc, newFunc, newListFunc, getAttrs, trigger, indexers)
		cached, ok := made.(*cacher.CacheDelegator)
		if err != nil || !ok {
			return made, destroy, err
		}
		s := &continuing{CacheDelegator: cached, history: lazyStorage{make: func() (storage.Interface, factory.DestroyFunc, error) {
			return newRaw(config, newFunc, newListFunc, resourcePrefix)
		}}}
		return s, func() {
			destroy()
			s.history.destroy()
		}, nil
	}
}

// continuing is a storage whose watches may be older than its cache.
type continuing struct {
	*cacher.CacheDelegator
	history lazyStorage
	// awaited says that the cache was ready once, or was waited for in vain.
	awaited atomic.Bool
}

// GetList waits for a cache that was just made: lists are served from it.
func (s *continuing) GetList(ctx context.Context, key string, opts storage.ListOptions, list runtime.Object) error {
	s.awaitFirstFill(ctx)
	return s.CacheDelegator.GetList(ctx, key, opts, list)
}

// Watch watches from the cache, or from etcd until it can from the cache.
func (s *continuing) Watch(ctx context.Context, key string, opts storage.ListOptions) (watch.Interface, error) {
	s.awaitFirstFill(ctx)
	watching, err := s.CacheDelegator.Watch(ctx, key, opts)
	if err != nil {
		return nil, err
	}
	refusal := refusalOf(watching)
	if refusal == nil {
		return watching, nil
	}
	if !isExpired(refusal) || !etcdfeature.DefaultFeatureSupportChecker.Supports(storage.RequestWatchProgress) {
		return refused(*refusal), nil
	}
	history, err := s.history.get()
	if err != nil {
		return refused(*refusal), nil //nolint:nilerr // the client lists again, as it would without history
	}
	return resume(ctx, source{history: history, cache: s.CacheDelegator, key: key, opts: opts, refusal: *refusal}), nil
}

// awaitFirstFill returns when the cache is or was ready, the context ends, or it takes long. That is done once: when etcd is away, a
// request gets Retry-After, as from kube-apiserver, and does not keep others from being served.
func (s *continuing) awaitFirstFill(ctx context.Context) {
	if s.awaited.Load() {
		return
	}
	err := wait.PollUntilContextTimeout(ctx, 10*time.Millisecond, firstFill, true, func(context.Context) (bool, error) {
		return s.awaited.Load() || s.ReadinessCheck() == nil, nil
	})
	if err == nil || ctx.Err() == nil {
		s.awaited.Store(true)
	}
}

// refusalOf returns the event with which the cache refused a watch, if it did: such a watch consists of it, while those that were
// begun have room for many.
func refusalOf(watching watch.Interface) *watch.Event {
	events := watching.ResultChan()
	if cap(events) != 1 || len(events) != 1 {
		return nil
	}
	event := <-events
	return &event
}

func isExpired(event *watch.Event) bool {
	status, ok := event.Object.(*metav1.Status)
	return ok && event.Type == watch.Error && status.Code == http.StatusGone && status.Reason == metav1.StatusReasonExpired
}

// refused returns a watch that consists of one event.
func refused(event watch.Event) watch.Interface {
	events := make(chan watch.Event, 1)
	events <- event
	close(events)
	return watch.NewProxyWatcher(events)
}

// lazyStorage is a storage that is made when it is first needed.
type lazyStorage struct {
	make func() (storage.Interface, factory.DestroyFunc, error)

	mu      sync.Mutex
	made    storage.Interface
	unmake  factory.DestroyFunc
	retired bool
}

func (l *lazyStorage) get() (storage.Interface, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.retired {
		return nil, errors.New("the storage is being destroyed")
	}
	if l.made != nil {
		return l.made, nil
	}
	made, unmake, err := l.make()
	if err != nil {
		return nil, err
	}
	l.made, l.unmake = made, unmake
	return made, nil
}

func (l *lazyStorage) destroy() {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.unmake != nil && !l.retired {
		l.unmake()
	}
	l.retired = true
}
