// Copyright The Tripod Authors.
// SPDX-License-Identifier: Apache-2.0

package etcdclient

import (
	"context"
	"errors"

	"go.etcd.io/etcd/api/v3/etcdserverpb"
	clientv3 "go.etcd.io/etcd/client/v3"
)

// Fenced is the client of a storage whose writes depend on a key that others change. Storages write by transactions only.
type Fenced struct {
	clientv3.KV
	// Commit commits a transaction of the storage, by Transaction.CommitIf.
	Commit func(context.Context, *Transaction) (*clientv3.TxnResponse, error)
}

var errNoTransaction = errors.New("storages write by transactions only")

// Put implements clientv3.KV.
func (f Fenced) Put(context.Context, string, string, ...clientv3.OpOption) (*clientv3.PutResponse, error) {
	return nil, errNoTransaction
}

// Delete implements clientv3.KV.
func (f Fenced) Delete(context.Context, string, ...clientv3.OpOption) (*clientv3.DeleteResponse, error) {
	return nil, errNoTransaction
}

// Txn implements clientv3.KV.
func (f Fenced) Txn(ctx context.Context) clientv3.Txn { return &Transaction{of: f, ctx: ctx} }

// Transaction is what a storage does. It implements clientv3.Txn.
type Transaction struct {
	of         Fenced
	ctx        context.Context
	conditions []clientv3.Cmp
	then, or   []clientv3.Op
}

// If implements clientv3.Txn.
func (t *Transaction) If(conditions ...clientv3.Cmp) clientv3.Txn {
	t.conditions = conditions
	return t
}

// Then implements clientv3.Txn.
func (t *Transaction) Then(ops ...clientv3.Op) clientv3.Txn {
	t.then = ops
	return t
}

// Else implements clientv3.Txn.
func (t *Transaction) Else(ops ...clientv3.Op) clientv3.Txn {
	t.or = ops
	return t
}

// Commit implements clientv3.Txn.
func (t *Transaction) Commit() (*clientv3.TxnResponse, error) { return t.of.Commit(t.ctx, t) }

// KV is the client below the fence.
func (t *Transaction) KV() clientv3.KV { return t.of.KV }

// CommitIf commits the transaction if one more condition holds. If one does not, read returns the response to an operation that reads the
// fence, and answer is as if there were no fence.
func (t *Transaction) CommitIf(ctx context.Context, condition clientv3.Cmp, read clientv3.Op) (
	answer *clientv3.TxnResponse, fence *etcdserverpb.RangeResponse, err error,
) {
	answer, err = t.of.KV.Txn(ctx).
		If(append([]clientv3.Cmp{condition}, t.conditions...)...).
		Then(t.then...).
		Else(append([]clientv3.Op{read}, t.or...)...).Commit()
	if err != nil || answer.Succeeded {
		return answer, nil, err
	}
	fence = answer.Responses[0].GetResponseRange()
	answer.Responses = answer.Responses[1:]
	return answer, fence, nil
}
