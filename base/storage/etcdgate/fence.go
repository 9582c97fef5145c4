// Copyright The Tripod Authors.
// SPDX-License-Identifier: Apache-2.0

package etcdgate

import (
	"context"

	"go.etcd.io/etcd/api/v3/mvccpb"
	clientv3 "go.etcd.io/etcd/client/v3"

	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/tripod-k8s/tripod/base/migration"
	"github.com/tripod-k8s/tripod/base/storage/etcdclient"
)

// is is true if the gate is as a move has left it, or open for "".
func is(key, move string) clientv3.Cmp {
	if move == "" {
		return clientv3.Compare(clientv3.CreateRevision(key), "=", 0)
	}
	return clientv3.Compare(clientv3.Value(key), "=", move)
}

// moveIn returns the move that a key of a gate has.
func moveIn(kvs []*mvccpb.KeyValue) string {
	if len(kvs) == 0 {
		return ""
	}
	return string(kvs[0].Value)
}

// fence has each transaction compare the gate.
func fence(kv clientv3.KV, key string, resource schema.GroupResource) clientv3.KV {
	return etcdclient.Fenced{KV: kv, Commit: func(ctx context.Context, t *etcdclient.Transaction) (*clientv3.TxnResponse, error) {
		move := migration.MoveOf(ctx)
		answer, gate, err := t.CommitIf(ctx, is(key, move), clientv3.OpGet(key))
		if err == nil && !answer.Succeeded && moveIn(gate.GetKvs()) != move {
			return nil, migration.ErrorClosed(ctx, resource)
		}
		return answer, err
	}}
}
