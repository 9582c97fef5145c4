// Copyright The Tripod Authors.
// SPDX-License-Identifier: Apache-2.0

package placement

import (
	"cmp"
	"context"
	"crypto/rand"
	"fmt"

	clientv3 "go.etcd.io/etcd/client/v3"

	"k8s.io/klog/v2"

	"github.com/tripod-k8s/tripod/base/storage/etcdclient"
)

// farthest is how many revisions the etcd of a group's own may be behind the shared one for a group to go there without a move. More would
// take longer than a request.
const farthest = 100_000

// claim has a group without objects use its own etcd, unless that has objects, or is far behind. Another replica may do the same, or create
// an object in the shared etcd. Clients may have listed the group there, so its own etcd is raised: a resourceVersion that they know would
// otherwise stand for another time there.
func (f *finder) claim(ctx context.Context) error {
	at, now := f.atOwn, f.atShared.Revision
	switch {
	case at.IsHome():
		return f.decide(ctx, at.Record.Move) // the shared etcd has lost its record
	case at.HasObjects || at.Record != nil && !at.Record.Own:
		klog.InfoS("An API group stays in the shared etcd: its own one has objects, or had some, which a move has left there", "group", f.name)
		return nil
	case now-at.Revision > cmp.Or(f.farthest, farthest):
		klog.InfoS("An API group stays in the shared etcd until tripod migrate groups moves it: the revision of its own etcd is far behind",
			"group", f.name, "shared", now, "own", at.Revision)
		return nil
	}
	if _, err := f.above(ctx, f.own, at.Revision, now); err != nil {
		return err
	}
	if at.Record != nil {
		return f.decide(ctx, at.Record.Move)
	}
	record := Record{Own: true, Move: rand.Text(), Pending: true}
	answer, err := f.own.Txn(ctx).If(f.keys.RecordUnchanged(at.Revision), f.keys.Empty()).Then(f.keys.Put(record)).Commit()
	if err != nil {
		return fmt.Errorf("its etcd cannot be written: %w", err)
	}
	if !answer.Succeeded {
		f.claimed = false // another replica claims it
		return nil
	}
	return f.decide(ctx, record.Move)
}

// decide has the shared etcd say that a group without objects is in its own one, unless another replica, or a move that has begun, decides.
func (f *finder) decide(ctx context.Context, move string) error {
	// A move finds both etcds as it has left them.
	conditions := []clientv3.Cmp{f.keys.Empty()}
	for _, missing := range []string{f.keys.Record, f.keys.Pause, f.keys.Mover} {
		conditions = append(conditions, clientv3.Compare(clientv3.CreateRevision(missing), "=", 0))
	}
	if _, err := f.shared.Txn(ctx).If(conditions...).Then(f.keys.Put(Record{Own: true, Move: move})).Commit(); err != nil {
		return fmt.Errorf("etcd cannot be written: %w", err)
	}
	return nil
}

// above returns a revision of an etcd that is well above one of another etcd. at is one that it has had.
func (g *group) above(ctx context.Context, etcd *clientv3.Client, at, other int64) (int64, error) {
	if at > other+etcdclient.RaiseLeast {
		return at, nil
	}
	return etcdclient.Raise(ctx, etcd, g.keys.Raised, other)
}
