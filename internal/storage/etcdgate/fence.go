// Copyright The Tripod Authors.
// SPDX-License-Identifier: Apache-2.0

package etcdgate

import (
	"context"
	"errors"

	"go.etcd.io/etcd/api/v3/mvccpb"
	clientv3 "go.etcd.io/etcd/client/v3"

	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/tripod-k8s/tripod/internal/migration"
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

// fenced has each transaction compare the gate. Storages write by transactions only.
type fenced struct {
	clientv3.KV
	key      string
	resource schema.GroupResource
}

var errNoTransaction = errors.New("storages write by transactions only")

// Put implements clientv3.KV.
func (f fenced) Put(context.Context, string, string, ...clientv3.OpOption) (*clientv3.PutResponse, error) {
	return nil, errNoTransaction
}

// Delete implements clientv3.KV.
func (f fenced) Delete(context.Context, string, ...clientv3.OpOption) (*clientv3.DeleteResponse, error) {
	return nil, errNoTransaction
}

// Txn implements clientv3.KV.
func (f fenced) Txn(ctx context.Context) clientv3.Txn { return &fencedTxn{fenced: f, ctx: ctx} }

type fencedTxn struct {
	fenced
	ctx        context.Context
	conditions []clientv3.Cmp
	then, or   []clientv3.Op
}

// If implements clientv3.Txn.
func (t *fencedTxn) If(conditions ...clientv3.Cmp) clientv3.Txn {
	t.conditions = conditions
	return t
}

// Then implements clientv3.Txn.
func (t *fencedTxn) Then(ops ...clientv3.Op) clientv3.Txn {
	t.then = ops
	return t
}

// Else implements clientv3.Txn.
func (t *fencedTxn) Else(ops ...clientv3.Op) clientv3.Txn {
	t.or = ops
	return t
}

// Commit implements clientv3.Txn.
func (t *fencedTxn) Commit() (*clientv3.TxnResponse, error) {
	move := migration.MoveOf(t.ctx)
	answer, err := t.KV.Txn(t.ctx).
		If(append([]clientv3.Cmp{is(t.key, move)}, t.conditions...)...).
		Then(t.then...).
		Else(append([]clientv3.Op{clientv3.OpGet(t.key)}, t.or...)...).Commit()
	if err != nil || answer.Succeeded {
		return answer, err
	}
	if moveIn(answer.Responses[0].GetResponseRange().GetKvs()) != move {
		return nil, migration.ErrorClosed(t.ctx, t.resource)
	}
	answer.Responses = answer.Responses[1:]
	return answer, nil
}
