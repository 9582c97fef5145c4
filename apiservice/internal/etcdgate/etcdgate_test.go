// Copyright The Tripod Authors.
// SPDX-License-Identifier: Apache-2.0

package etcdgate

import (
	"context"
	"strconv"
	"testing"

	"github.com/stretchr/testify/require"

	"k8s.io/apiserver/pkg/storage"
	"k8s.io/apiserver/pkg/storage/storagebackend"

	"github.com/tripod-k8s/tripod/apiservice/storages"
	"github.com/tripod-k8s/tripod/apiservice/storagetest"
	"github.com/tripod-k8s/tripod/internal/storage/etcdclient"
	"github.com/tripod-k8s/tripod/internal/storage/etcdtest"
)

func TestEtcdWithAGateKeepsTheRules(t *testing.T) {
	client, clients, opened := etcdtest.Start(t), &etcdclient.Clients{}, 0
	storagetest.Run(t, storagetest.Options{
		Open: func(t *testing.T, r storages.Resource) storage.Interface {
			opened++
			config := storagebackend.NewDefaultConfig("/"+strconv.Itoa(opened), r.Codec)
			config.Transport.ServerList, config.CompactionInterval = client.Endpoints(), 0
			of := config.ForResource(r.GroupResource)
			store, stop, err := Raw(clients)(of, r.New, r.NewList, r.Prefix)
			require.NoError(t, err)
			t.Cleanup(stop)
			return New(store, client, of, r.Prefix)
		},
		Compact: func(ctx context.Context, t *testing.T, _ storage.Interface, revision int64) {
			_, err := client.Put(ctx, "/compactions", strconv.FormatInt(revision, 10))
			require.NoError(t, err)
			_, err = client.Compact(ctx, revision)
			require.NoError(t, err)
		},
	})
}
