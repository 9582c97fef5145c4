// Copyright The Tripod Authors.
// SPDX-License-Identifier: Apache-2.0

// Package storages tests that etcd keeps the rules that the storages of API services must keep.
package storages

import (
	"context"
	"strconv"
	"testing"

	"github.com/stretchr/testify/require"
	clientv3 "go.etcd.io/etcd/client/v3"

	"k8s.io/apiserver/pkg/storage"
	"k8s.io/apiserver/pkg/storage/storagebackend"
	"k8s.io/apiserver/pkg/storage/storagebackend/factory"

	"github.com/tripod-k8s/tripod/apiservice/storages"
	"github.com/tripod-k8s/tripod/apiservice/storagetest"
	"github.com/tripod-k8s/tripod/base/storage/etcdclient"
	"github.com/tripod-k8s/tripod/base/storage/etcdgate"
	"github.com/tripod-k8s/tripod/base/storage/etcdtest"
)

func TestEtcdKeepsTheRules(t *testing.T) {
	client := etcdtest.Start(t)
	rules(t, client, func(r storages.Resource, config *storagebackend.ConfigForResource) (storage.Interface, func(), error) {
		return factory.Create(*config, r.New, r.NewList, r.Prefix)
	})
}

// API services keep objects in etcd with a gate, for moves.
func TestEtcdWithAGateKeepsTheRules(t *testing.T) {
	client, clients := etcdtest.Start(t), &etcdclient.Clients{}
	rules(t, client, func(r storages.Resource, config *storagebackend.ConfigForResource) (storage.Interface, func(), error) {
		store, stop, err := etcdgate.Raw(clients)(config, r.New, r.NewList, r.Prefix)
		return etcdgate.New(store, client, config, r.Prefix), stop, err
	})
}

// rules tests storages that a function makes in an etcd.
func rules(
	t *testing.T, client *clientv3.Client,
	open func(storages.Resource, *storagebackend.ConfigForResource) (storage.Interface, func(), error),
) {
	opened := 0
	storagetest.Run(t, storagetest.Options{
		Open: func(t *testing.T, r storages.Resource) storage.Interface {
			opened++
			config := storagebackend.NewDefaultConfig("/"+strconv.Itoa(opened), r.Codec)
			config.Transport.ServerList = client.Endpoints()
			store, stop, err := open(r, config.ForResource(r.GroupResource))
			require.NoError(t, err)
			t.Cleanup(stop)
			return store
		},
		Compact: func(ctx context.Context, t *testing.T, _ storage.Interface, revision int64) {
			compact(ctx, t, client, revision)
		},
	})
}

var _ storages.Gated = &etcdgate.Storage{}

// compact compacts etcd as kube-apiserver does, which writes a key first.
func compact(ctx context.Context, t *testing.T, client *clientv3.Client, revision int64) {
	_, err := client.Put(ctx, "/compactions", strconv.FormatInt(revision, 10))
	require.NoError(t, err)
	_, err = client.Compact(ctx, revision)
	require.NoError(t, err)
}
