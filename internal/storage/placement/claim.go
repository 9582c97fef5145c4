// Copyright The Tripod Authors.
// SPDX-License-Identifier: Apache-2.0

package placement

import (
	"cmp"
	"context"
	"crypto/rand"
	"fmt"
	"sync/atomic"

	clientv3 "go.etcd.io/etcd/client/v3"
	"golang.org/x/sync/errgroup"

	"k8s.io/klog/v2"
)

const (
	// margin is how many revisions the etcd of a group's own is raised beyond the shared one, and least how many of these have to be left.
	margin, least = 1000, 100
	// farthest is how many revisions that etcd may be behind for a group to go there without a move. More would take longer than a request.
	farthest = 100_000
	// writers is how many writes run at a time. etcd writes them to disk together.
	writers = 128
)

// claim has a group without objects use its own etcd, unless that has objects, or is far behind. Another replica may do the same, or create
// an object in the shared etcd. now is the revision of that. Clients may have listed the group there, so its own etcd is raised first: a
// resourceVersion that they know would otherwise stand for another time there.
func (g *group) claim(ctx context.Context, shared *clientv3.Client, now int64) error {
	client, err := g.Clients.Client(g.own)
	if err != nil {
		return err
	}
	state, err := g.keys.Read(ctx, client)
	if err != nil {
		return fmt.Errorf("its etcd does not answer: %w", err)
	}
	switch {
	case state.HasObjects && state.IsHome():
		return g.checkKnown(ctx, shared)
	case state.HasObjects || state.Record != nil && !state.Record.Own:
		klog.InfoS("An API group stays in the shared etcd: its own one has objects, or had some, which a move has left there", "group", g.name)
		return nil
	case now-state.Revision > cmp.Or(g.farthest, farthest):
		klog.InfoS("An API group stays in the shared etcd until tripod migrate groups moves it: the revision of its own etcd is far behind",
			"group", g.name, "shared", now, "own", state.Revision)
		return nil
	}
	record := Record{Own: true, Move: rand.Text(), Pending: true}
	if record.Floor, err = g.raise(ctx, client, now); err != nil {
		return err
	}
	answer, err := client.Txn(ctx).
		If(clientv3.Compare(clientv3.CreateRevision(g.keys.Record), "=", 0), g.keys.Empty()).
		Then(g.keys.Put(record)).
		Else(clientv3.OpGet(g.keys.Record)).Commit()
	if err != nil {
		return fmt.Errorf("its etcd cannot be written: %w", err)
	}
	if !answer.Succeeded {
		if state, err = g.keys.Read(ctx, client); err != nil || !state.IsOwn() {
			return err
		}
		record.Move = state.Record.Move
	}
	record.Pending = false
	return g.decide(ctx, shared, client, record)
}

// checkHome returns an error if the objects are in the group's own etcd, and those in the shared one are old ones that a move has left
// there. An own etcd that does not answer says nothing: without a move, the group does not need it.
func (g *group) checkHome(ctx context.Context, shared *clientv3.Client) error {
	client, err := g.Clients.Client(g.own)
	if err != nil {
		return err
	}
	asking, cancel := context.WithTimeout(ctx, findTimeout/2)
	defer cancel()
	state, err := g.keys.Read(asking, client)
	if err != nil || !state.IsHome() {
		return ctx.Err()
	}
	return g.checkKnown(ctx, shared)
}

// checkKnown returns an error unless the shared etcd has a record by now. Its objects are in the group's own etcd, so it had one.
func (g *group) checkKnown(ctx context.Context, shared *clientv3.Client) error {
	state, err := g.keys.Read(ctx, shared)
	if err == nil && state.Record == nil {
		err = fmt.Errorf("its own etcd has its objects, but %v does not know of that any more: was it restored or replaced? "+
			"Restore it to a later state, or let tripod migrate groups write the record again", g.Shared.Transport.ServerList)
	}
	return err
}

// settle notes in the group's own etcd that the shared one knows that it has the objects. If that fails, the next replica does it.
func (g *group) settle(ctx context.Context, own *clientv3.Client, at State) (State, error) {
	settled := *at.Record
	settled.Pending = false
	if _, err := own.Txn(ctx).If(g.keys.RecordUnchanged(at.Revision)).Then(g.keys.Put(settled)).Commit(); err != nil {
		klog.InfoS("The etcd of an API group does not take the note that its objects are there", "group", g.name, "reason", err.Error())
		return at, nil
	}
	return g.keys.Read(ctx, own)
}

// decide has the shared etcd say that a group without objects is in its own one.
func (g *group) decide(ctx context.Context, shared, own *clientv3.Client, record Record) error {
	// A move of the group, which has begun already, finds both etcds as it has left them.
	conditions := []clientv3.Cmp{g.keys.Empty()}
	for _, missing := range []string{g.keys.Record, g.keys.Pause, g.keys.Mover} {
		conditions = append(conditions, clientv3.Compare(clientv3.CreateRevision(missing), "=", 0))
	}
	for {
		answer, err := shared.Txn(ctx).If(conditions...).Then(g.keys.Put(record)).Commit()
		if err != nil {
			return fmt.Errorf("etcd cannot be written: %w", err)
		}
		last := answer.Header.GetRevision()
		if !answer.Succeeded || last < record.Floor {
			return nil
		}
		// Writes of others have come beyond what was read before.
		if record.Floor, err = g.raise(ctx, own, last); err != nil {
			return err
		}
		conditions = []clientv3.Cmp{clientv3.Compare(clientv3.ModRevision(g.keys.Record), "=", last)}
	}
}

// raise raises the revision of an etcd above another one, and returns it. Only writes raise it.
func (g *group) raise(ctx context.Context, etcd *clientv3.Client, above int64) (int64, error) {
	reached := atomic.Int64{}
	write := func(ctx context.Context) error {
		answer, err := etcd.Put(ctx, g.keys.Raised, "")
		if err != nil {
			return fmt.Errorf("the revision of its etcd cannot be raised from %d above %d: %w", reached.Load(), above, err)
		}
		raiseTo(&reached, answer.Header.GetRevision())
		return nil
	}
	if err := write(ctx); err != nil || reached.Load() > above+least {
		return reached.Load(), err
	}
	writing, ctx := errgroup.WithContext(ctx)
	for range writers {
		writing.Go(func() error {
			for reached.Load() <= above+margin {
				if err := write(ctx); err != nil {
					return err
				}
			}
			return nil
		})
	}
	err := writing.Wait()
	return reached.Load(), err
}
