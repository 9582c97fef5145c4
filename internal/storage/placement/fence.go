// Copyright The Tripod Authors.
// SPDX-License-Identifier: Apache-2.0

package placement

import (
	"context"
	"errors"
	"time"

	clientv3 "go.etcd.io/etcd/client/v3"
)

// fenced has each transaction fail when the fence of a group has changed. Storages write by transactions only.
type fenced struct {
	clientv3.KV
	place *place
}

// answerTimeout bounds the wait for the etcd of a group's own. Requests of one group should not wait long for an etcd that is away.
const answerTimeout = 5 * time.Second

// within calls a function with a context in which the etcd should answer.
func (p *place) within(ctx context.Context, ask func(context.Context) error) error {
	if !p.own {
		return ask(ctx)
	}
	asking, cancel := context.WithTimeout(ctx, answerTimeout)
	defer cancel()
	err := ask(asking)
	if err != nil && asking.Err() != nil && ctx.Err() == nil {
		return p.group.unavailable("its etcd does not answer")
	}
	return err
}

// Get implements clientv3.KV. Only reads of one key are bounded. They make sure that the objects have not left, of which the move may have
// deleted some; [vouching] does so for others.
func (f fenced) Get(ctx context.Context, key string, opts ...clientv3.OpOption) (answer *clientv3.GetResponse, err error) {
	if clientv3.OpGet(key, opts...).RangeBytes() != nil {
		return f.KV.Get(ctx, key, opts...)
	}
	err = f.place.within(ctx, func(ctx context.Context) error {
		answer, err = f.place.getHere(ctx, f.KV, clientv3.OpGet(key, opts...))
		if err == nil {
			f.place.reach(answer.Header.GetRevision())
		}
		return err
	})
	return answer, err
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
func (f fenced) Txn(ctx context.Context) clientv3.Txn {
	return &fencedTxn{ctx: ctx, fenced: f}
}

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

// Commit implements clientv3.Txn. If the fence has changed, but is open again, it tries once more.
func (t *fencedTxn) Commit() (*clientv3.TxnResponse, error) {
	var answer *clientv3.TxnResponse
	err := t.place.within(t.ctx, func(ctx context.Context) error {
		for range 2 {
			committed, changed, err := t.commit(ctx)
			if err != nil || !changed {
				answer = committed
				return err
			}
			if err := t.place.reopen(ctx, t.KV); err != nil {
				return err
			}
		}
		return t.place.group.moving()
	})
	return answer, err
}

func (t *fencedTxn) commit(ctx context.Context) (answer *clientv3.TxnResponse, changed bool, err error) {
	keys, known := t.place.group.keys, t.place.known.Load()
	fence := clientv3.OpGet(keys.Fence, clientv3.WithPrefix(), clientv3.WithKeysOnly())
	answer, err = t.KV.Txn(ctx).
		If(append([]clientv3.Cmp{keys.Unchanged(known)}, t.conditions...)...).
		Then(t.then...).
		Else(append([]clientv3.Op{fence}, t.or...)...).Commit()
	if err == nil {
		t.place.reach(answer.Header.GetRevision())
	}
	if err != nil {
		return nil, false, err
	}
	if answer.Succeeded {
		raiseTo(&t.place.here, answer.Header.GetRevision()) // the fence has the record
		return answer, false, nil
	}
	for _, kv := range answer.Responses[0].GetResponseRange().GetKvs() {
		changed = changed || kv.ModRevision > known
	}
	answer.Responses = answer.Responses[1:]
	return answer, changed || known < 0, nil
}
