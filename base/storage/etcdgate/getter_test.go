// Copyright The Tripod Authors.
// SPDX-License-Identifier: Apache-2.0

package etcdgate

import (
	"context"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"go.etcd.io/etcd/api/v3/v3rpc/rpctypes"
	clientv3 "go.etcd.io/etcd/client/v3"

	"github.com/tripod-k8s/tripod/base/storage/etcdtest"
)

// ofUser is the etcd of a user who is not root.
type ofUser struct{ clientv3.KV }

func (ofUser) Compact(context.Context, int64, ...clientv3.CompactOption) (*clientv3.CompactResponse, error) {
	return nil, rpctypes.ErrPermissionDenied
}

func TestAUserWhoMayNotCompactRaisesEtcd(t *testing.T) {
	etcd := etcdtest.Start(t)
	g := &Storage{kv: ofUser{etcd}, key: "/gate", raise: 1000, kept: 500}
	_, err := etcd.Put(t.Context(), g.key, "move")
	require.NoError(t, err)
	floor, err := g.Raise(t.Context(), "move", 3000)
	require.NoError(t, err)
	assert.Zero(t, floor, "it takes more calls")
}

func TestEtcdForgetsTheWritesThatRaiseIt(t *testing.T) {
	etcd := etcdtest.Start(t)
	g := &Storage{kv: etcd, key: "/gate", raise: 1000, kept: 2000}
	_, err := etcd.Put(t.Context(), g.key, "move")
	require.NoError(t, err)
	const above = 5000
	var floor int64
	for calls := 0; floor == 0; calls++ {
		require.Less(t, calls, above/int(g.raise), "how often it was raised")
		floor, err = g.Raise(t.Context(), "move", above)
		require.NoError(t, err)
	}
	assert.Greater(t, floor, int64(above))
	_, err = etcd.Get(t.Context(), g.key, clientv3.WithRev(100))
	require.ErrorIs(t, err, rpctypes.ErrCompacted)
	_, err = etcd.Get(t.Context(), g.key, clientv3.WithRev(floor-g.kept))
	require.NoError(t, err, "what others may still read")
}
