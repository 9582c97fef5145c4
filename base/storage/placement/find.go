// Copyright The Tripod Authors.
// SPDX-License-Identifier: Apache-2.0

package placement

import (
	"context"
	"errors"
	"fmt"

	clientv3 "go.etcd.io/etcd/client/v3"

	"k8s.io/apiserver/pkg/storage/storagebackend"
	"k8s.io/klog/v2"
)

// find returns the place of a group. The revision is that of the shared etcd.
func (g *group) find(ctx context.Context) (found *place, revision int64, err error) {
	f := finder{group: g}
	if g.fixed {
		if g.own != nil {
			return nil, 0, g.notMovable()
		}
		return f.newPlace(g.Shared, State{}), 0, nil
	}
	if f.shared, err = g.Clients.Client(&g.Shared); err != nil {
		return nil, 0, err
	}
	if g.own != nil {
		if f.own, err = g.Clients.Client(g.own); err != nil {
			return nil, 0, err
		}
	}
	for found == nil {
		if err := f.read(ctx); err != nil {
			return nil, 0, err
		}
		if found, err = f.next(ctx); err != nil {
			return nil, 0, err
		}
	}
	return found, f.atShared.Revision, nil
}

// finder finds the place of a group, and ends what a claim or a move has left.
//
// Other services can write to the shared etcd, below a suffix also to the record of the group. So if the group has an etcd of its own, that
// must consent to any other place. If it does not answer, nothing is found.
type finder struct {
	*group
	// own is nil if the replica has no etcd of the group's own.
	shared, own     *clientv3.Client
	atShared, atOwn State
	// claimed is set once the group was claimed, or was found to stay.
	claimed bool
}

func (f *finder) read(ctx context.Context) (err error) {
	if f.atShared, err = f.keys.Read(ctx, f.shared); err != nil {
		return fmt.Errorf("etcd does not answer where its objects are: %w", err)
	}
	if f.own == nil {
		return nil
	}
	if f.atOwn, err = f.keys.Read(ctx, f.own); err != nil {
		return fmt.Errorf("its etcd does not answer: %w", err)
	}
	return nil
}

// next returns the place, or takes a step after which the etcds say more.
func (f *finder) next(ctx context.Context) (*place, error) {
	pending := f.atShared.Record != nil && f.atShared.Record.Pending
	switch {
	case f.atShared.IsAway():
		return nil, &awayError{f.name, f.atShared.Record.Service}
	case f.atShared.IsOwn():
		return f.inOwn(ctx)
	case f.own == nil && pending:
		return nil, errors.New("a move of its objects has not ended: tripod migrate groups --to extensions ends it")
	case f.own == nil:
		return f.newPlace(f.Shared, f.atShared), nil
	case f.atOwn.IsHome() && (f.claimed || f.atOwn.HasObjects || f.atShared.HasObjects || f.atShared.Record != nil):
		return nil, f.refuse(ctx)
	case f.atShared.Record == nil && !f.atShared.HasObjects && !f.claimed:
		f.claimed = true
		return nil, f.claim(ctx)
	case pending:
		return nil, f.settleShared(ctx)
	}
	if f.atOwn.Reader != f.Name {
		go f.announce() //nolint:gosec // it outlives the request
	}
	return f.newPlace(f.Shared, f.atShared), nil
}

// newPlace returns the place in an etcd whose record claims the objects.
func (f *finder) newPlace(etcd storagebackend.Config, at State) *place {
	p := &place{group: f.group, etcd: etcd, own: f.atShared.IsOwn(), record: f.atShared.record(), floor: at.record().Floor}
	if !p.own && f.own != nil {
		p.consent = f.atOwn.Revision
	}
	p.reach(at.Revision)
	p.here.Store(at.Revision)
	p.known.Store(shut)
	if p.isOpen(at) {
		p.known.Store(at.Revision)
	}
	p.context, p.leave = context.WithCancel(f.group.context)
	return p
}

// refuse returns an error if the shared etcd still says that the objects are not in the group's own etcd, which says they are.
func (f *finder) refuse(ctx context.Context) error {
	now, moved, err := f.movedMeanwhile(ctx)
	switch {
	case err != nil || moved:
		return err
	case now.Record == nil:
		return fmt.Errorf("its own etcd has its objects, but %v does not know of that any more: was it restored or replaced? "+
			"Restore it to a later state, or let tripod migrate groups write the record again", f.Shared.Transport.ServerList)
	}
	return fmt.Errorf("its own etcd has its objects, but %v has a record that they are elsewhere: was one of both restored, or the "+
		"record changed? tripod migrate groups can write it again", f.Shared.Transport.ServerList)
}

// movedMeanwhile reports whether the record of the shared etcd is another one than was read before the state of the group's own etcd.
func (f *finder) movedMeanwhile(ctx context.Context) (now State, moved bool, err error) {
	if now, err = f.keys.Read(ctx, f.shared); err != nil {
		return State{}, false, fmt.Errorf("etcd does not answer where its objects are: %w", err)
	}
	return now, (now.Record == nil) != (f.atShared.Record == nil) || now.record() != f.atShared.record(), nil
}

// inOwn returns the etcd of the group's own as its place. It is an error if the objects are not there, unless they have left for the shared
// etcd since that was read.
func (f *finder) inOwn(ctx context.Context) (*place, error) {
	if f.own == nil {
		return nil, fmt.Errorf("its objects are in an etcd of their own: %s", howToMove(f.name))
	}
	record := f.atOwn.Record
	other := record == nil || record.Move != f.atShared.Record.Move
	if other || record.Left {
		if _, moved, err := f.movedMeanwhile(ctx); err != nil || moved {
			return nil, err
		}
	}
	switch {
	case other:
		return nil, fmt.Errorf("the etcd %v does not have its objects: is it another one than before?", f.group.own.Transport.ServerList)
	case record.Left:
		return nil, errors.New("its objects have just moved to another etcd")
	case record.Pending:
		return f.settleOwn(ctx)
	}
	return f.newPlace(*f.group.own, f.atOwn), nil
}

func howToMove(group string) string {
	return "give --group-etcd-servers, or move them by tripod migrate groups --to extensions " + group
}

// settleOwn notes in the group's own etcd that the shared one knows that it has the objects, and from which resourceVersion on. Clients
// know none of the shared etcd that is later than the switch: replicas show nothing of a later revision before they look at the record.
func (f *finder) settleOwn(ctx context.Context) (*place, error) {
	floor, err := f.above(ctx, f.own, f.atOwn.Revision, f.atShared.Revision)
	if err != nil {
		return nil, err
	}
	settled := Record{Own: true, Move: f.atOwn.Record.Move, Floor: floor}
	if _, err := f.own.Txn(ctx).If(f.keys.RecordUnchanged(f.atOwn.Revision)).Then(f.keys.Put(settled)).Commit(); err != nil {
		// It may be full. Reads go on, and the next replica writes the note.
		klog.InfoS("The etcd of an API group does not take the note that its objects are there", "group", f.name, "reason", err.Error())
		f.atOwn.Record.Floor = floor
		return f.newPlace(*f.group.own, f.atOwn), nil
	}
	return nil, nil // what it says now is read next
}

// settleShared ends a move back to the shared etcd. Once the group's own etcd says that the objects have left, no replica shows anything of
// it, so later resourceVersions are those of the shared one.
func (f *finder) settleShared(ctx context.Context) error {
	left := f.atOwn.Revision
	if f.atOwn.IsClosed() {
		record := *f.atOwn.Record
		record.Left = true
		answer, err := f.own.Txn(ctx).If(f.keys.RecordUnchanged(left)).Then(f.keys.Put(record)).Commit()
		if err != nil {
			return fmt.Errorf("its etcd cannot be written: %w", err)
		}
		if !answer.Succeeded {
			return nil
		}
		left = answer.Header.GetRevision()
	}
	floor, err := f.above(ctx, f.shared, f.atShared.Revision, left)
	if err != nil {
		return err
	}
	settled := Record{Move: f.atShared.Record.Move, Floor: floor}
	_, err = f.shared.Txn(ctx).If(f.keys.RecordUnchanged(f.atShared.Revision)).Then(f.keys.Put(settled)).Commit()
	if err != nil {
		return fmt.Errorf("etcd cannot be written: %w", err)
	}
	return nil
}
