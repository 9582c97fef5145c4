// Copyright The Tripod Authors.
// SPDX-License-Identifier: Apache-2.0

package placement

import (
	"context"
	"time"

	clientv3 "go.etcd.io/etcd/client/v3"

	"github.com/tripod-k8s/tripod/base/storage/etcdclient"
)

// fenced has each transaction fail when the fence of a group has changed.
type fenced struct {
	etcdclient.Fenced
	place *place
}

func newFenced(kv clientv3.KV, p *place) fenced {
	return fenced{etcdclient.Fenced{KV: kv, Commit: p.commit}, p}
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

// commit commits a transaction. If the fence has changed, but is open again, it tries once more.
func (p *place) commit(ctx context.Context, t *etcdclient.Transaction) (answer *clientv3.TxnResponse, err error) {
	err = p.within(ctx, func(ctx context.Context) error {
		for range 2 {
			committed, changed, err := p.tryCommit(ctx, t)
			if err != nil || !changed {
				answer = committed
				return err
			}
			if err := p.reopen(ctx, t.KV()); err != nil {
				return err
			}
		}
		return p.group.moving()
	})
	return answer, err
}

func (p *place) tryCommit(ctx context.Context, t *etcdclient.Transaction) (answer *clientv3.TxnResponse, changed bool, err error) {
	keys, known := p.group.keys, p.known.Load()
	answer, fence, err := t.CommitIf(ctx, keys.Unchanged(known), clientv3.OpGet(keys.Fence, clientv3.WithPrefix(), clientv3.WithKeysOnly()))
	if err != nil {
		return nil, false, err
	}
	p.reach(answer.Header.GetRevision())
	if answer.Succeeded {
		raiseTo(&p.here, answer.Header.GetRevision()) // the fence has the record
		return answer, false, nil
	}
	for _, kv := range fence.GetKvs() {
		changed = changed || kv.ModRevision > known
	}
	return answer, changed || known < 0, nil
}
