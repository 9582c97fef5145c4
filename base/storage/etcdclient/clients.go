// Copyright The Tripod Authors.
// SPDX-License-Identifier: Apache-2.0

// Package etcdclient makes storages that share one etcd client. kube-apiserver's have a client each, with a connection and
// its goroutines and buffers, for each version of each CustomResourceDefinition (https://issue.k8s.io/111476).
package etcdclient

import (
	"context"
	"path"
	"slices"
	"strings"
	"sync"

	clientv3 "go.etcd.io/etcd/client/v3"
	"go.etcd.io/etcd/client/v3/kubernetes"

	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apiserver/pkg/features"
	"k8s.io/apiserver/pkg/storage"
	"k8s.io/apiserver/pkg/storage/etcd3"
	etcdfeature "k8s.io/apiserver/pkg/storage/feature"
	"k8s.io/apiserver/pkg/storage/storagebackend"
	"k8s.io/apiserver/pkg/storage/storagebackend/factory"
	"k8s.io/apiserver/pkg/storage/value/encrypt/identity"
	utilfeature "k8s.io/apiserver/pkg/util/feature"
)

// Clients are the etcd clients of a process, one for each list of servers and files that storages name. They are never closed: storages
// come and go as long as the process serves. The zero value is ready for use.
type Clients struct {
	mu     sync.Mutex
	byEtcd map[string]*client
}

type client struct {
	*clientv3.Client
	compactor etcd3.Compactor
}

// NewStorage returns the storage that factory.Create of k8s.io/apiserver returns, except that it uses the shared client. It does
// not wait for etcd.
func (c *Clients) NewStorage(
	config *storagebackend.ConfigForResource, newFunc, newListFunc func() runtime.Object, resourcePrefix string,
) (storage.Interface, factory.DestroyFunc, error) {
	return c.Wrapped(func(kv clientv3.KV) clientv3.KV { return kv })(config, newFunc, newListFunc, resourcePrefix)
}

// Wrapped returns NewStorage, except that storages read and write by way of what wrap returns.
func (c *Clients) Wrapped(wrap func(clientv3.KV) clientv3.KV) NewRawStorage {
	return func(
		config *storagebackend.ConfigForResource, newFunc, newListFunc func() runtime.Object, resourcePrefix string,
	) (storage.Interface, factory.DestroyFunc, error) {
		return c.newStorage(config, newFunc, newListFunc, resourcePrefix, wrap)
	}
}

func (c *Clients) newStorage(
	config *storagebackend.ConfigForResource, newFunc, newListFunc func() runtime.Object, resourcePrefix string,
	wrap func(clientv3.KV) clientv3.KV,
) (storage.Interface, factory.DestroyFunc, error) {
	shared, err := c.client(&config.Config)
	if err != nil {
		return nil, nil, err
	}
	transformer := config.Transformer
	if transformer == nil {
		transformer = identity.NewEncryptCheckTransformer()
	}
	versioner := storage.APIObjectVersioner{}
	decoder := etcd3.NewDefaultDecoder(config.Codec, versioner)
	deletesCorrupt := utilfeature.DefaultFeatureGate.Enabled(features.AllowUnsafeMalformedObjectDeletion)
	if deletesCorrupt {
		transformer = etcd3.WithCorruptObjErrorHandlingTransformer(transformer)
		decoder = etcd3.WithCorruptObjErrorHandlingDecoder(decoder)
	}
	own := shared.withOwnWatches(wrap)
	store, err := etcd3.New(own, shared.compactor, config.Codec, newFunc, newListFunc, config.Prefix, resourcePrefix,
		config.GroupResource, transformer, config.LeaseManagerConfig, decoder, versioner)
	if err != nil {
		own.Close() //nolint:errcheck // it has not been used
		return nil, nil, err
	}
	destroy := sync.OnceFunc(func() {
		store.Close()
		own.Close() //nolint:errcheck // that its watches ended
	})
	if deletesCorrupt {
		return etcd3.NewStoreWithUnsafeCorruptObjectDeletion(store, config.GroupResource), destroy, nil
	}
	return store, destroy, nil
}

// Client returns the client for the etcd of a configuration. The caller does not close it.
func (c *Clients) Client(config *storagebackend.Config) (*clientv3.Client, error) {
	shared, err := c.client(config)
	if err != nil {
		return nil, err
	}
	return shared.Client, nil
}

// client returns the client for the etcd of a configuration, and makes it when it is the first that asks.
func (c *Clients) client(config *storagebackend.Config) (*client, error) {
	with := config.Transport
	etcd := strings.Join(append(slices.Clone(with.ServerList), with.TrustedCAFile, with.CertFile, with.KeyFile), ",")
	c.mu.Lock()
	defer c.mu.Unlock()
	if existing, ok := c.byEtcd[etcd]; ok {
		return existing, nil
	}
	dialled, err := dial(config.Transport)
	if err != nil {
		return nil, err
	}
	made := &client{Client: dialled}
	if config.CompactionInterval != 0 {
		made.compactor = etcd3.StartCompactorPerEndpoint(dialled, config.CompactionInterval)
	}
	// Storages cannot check what etcd can do, because they see no endpoints.
	etcdfeature.DefaultFeatureSupportChecker.CheckClient(dialled.Ctx(), dialled, storage.RequestWatchProgress)
	if c.byEtcd == nil {
		c.byEtcd = map[string]*client{}
	}
	c.byEtcd[etcd] = made
	return made, nil
}

// withOwnWatches returns the client of one storage, which may be closed. Its watches have a stream of their own in the shared
// connection: in that of others they would wait for these, and receive each one's progress.
func (c *client) withOwnWatches(wrap func(clientv3.KV) clientv3.KV) *kubernetes.Client {
	own := clientv3.NewCtxClient(c.Ctx())
	own.KV = wrap(etcd3.NewETCDLatencyTracker(c.KV))
	own.Lease = clientv3.NewLease(c.Client)
	own.Maintenance = c.Maintenance
	own.Watcher = clientv3.NewWatcher(c.Client)
	result := &kubernetes.Client{Client: own}
	result.Kubernetes = result
	return result
}

// Names returns the last segments of all keys below a key, and the revision of etcd at which it read them. It reads no values.
func (c *Clients) Names(ctx context.Context, config *storagebackend.ConfigForResource, key string) (names []string, revision int64,
	err error) {
	shared, err := c.client(&config.Config)
	if err != nil {
		return nil, 0, err
	}
	directory := path.Join("/", config.Prefix, key) + "/"
	answer, err := shared.Get(ctx, directory, clientv3.WithPrefix(), clientv3.WithKeysOnly())
	if err != nil {
		return nil, 0, err
	}
	for _, kv := range answer.Kvs {
		names = append(names, strings.TrimPrefix(string(kv.Key), directory))
	}
	return names, answer.Header.GetRevision(), nil
}
