// Copyright The Tripod Authors.
// SPDX-License-Identifier: Apache-2.0

package split

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"path"
	"slices"
	"strings"
	"time"

	clientv3 "go.etcd.io/etcd/client/v3"
	"k8s.io/apimachinery/pkg/util/validation"

	"github.com/tripod-k8s/tripod/base/storage/etcdversion"
	"github.com/tripod-k8s/tripod/base/storage/placement"
)

// Keeper keeps the record that says whether extensions has the objects of an API group, or an API service. It has the locks and the pause
// of moves between etcds, so a group is in one move at a time.
type Keeper struct {
	m *move
}

// KeeperOptions say which record, and where.
type KeeperOptions struct {
	// Etcd is the one with the CustomResourceDefinitions, and Prefix the --etcd-prefix of the services.
	Etcd   Etcd
	Prefix string
	Group  string
	// To names where the group goes. It is the content of the locks.
	To string
	// PauseTTL is another PauseTTL, if not 0.
	PauseTTL time.Duration
	Progress func(line string)
}

// CheckCustom returns an error if a group has no custom resources.
func CheckCustom(group string) error {
	if len(validation.IsDNS1123Subdomain(group)) > 0 || !custom("x."+group) {
		return fmt.Errorf("%q is not an API group of custom resources", group)
	}
	return nil
}

// Keep connects to etcd, and reads the record. The caller closes the Keeper.
func Keep(ctx context.Context, o KeeperOptions) (*Keeper, error) {
	shared, err := o.Etcd.dial(ctx)
	if err != nil {
		return nil, err
	}
	group := &GroupOptions{
		Shared: o.Etcd, To: o.To, Prefix: path.Join("/", o.Prefix), Progress: o.Progress, PauseTTL: cmp.Or(o.PauseTTL, PauseTTL),
	}
	k := &Keeper{newMove(group, o.Group, shared, nil)}
	k.m.source, k.m.target, k.m.Target = shared, shared, o.Etcd
	if err := k.check(ctx); err != nil {
		k.Close()
		return nil, err
	}
	return k, nil
}

// check reads the record, of a server that is etcd.
func (k *Keeper) check(ctx context.Context) error {
	answer, err := k.m.shared.Get(ctx, k.m.keys.Record)
	if err != nil {
		return fmt.Errorf("cannot read from --%s: %w", k.m.GroupOptions.Shared.Flag, err)
	}
	if !etcdversion.IsEtcd(answer.Header) {
		return fmt.Errorf("--%s is not etcd, but a server such as kine, which has no transactions for moves", k.m.GroupOptions.Shared.Flag)
	}
	return k.Read(ctx)
}

// Close ends the connection.
func (k *Keeper) Close() { k.m.shared.Close() } //nolint:errcheck // nothing is pending

// Read reads the record again.
func (k *Keeper) Read(ctx context.Context) (err error) {
	if k.m.atShared, err = k.m.keys.Read(ctx, k.m.shared); err != nil {
		err = fmt.Errorf("cannot read from --%s: %w", k.m.GroupOptions.Shared.Flag, err)
	}
	return err
}

// Record returns the record as it was read or written last.
func (k *Keeper) Record() placement.Record {
	if k.m.atShared.Record == nil {
		return placement.Record{}
	}
	return *k.m.atShared.Record
}

// Lock makes this the only move of the group, until unlock. It fails if the record has changed since it was read.
func (k *Keeper) Lock(ctx context.Context) (unlock func(), err error) { return k.m.lock(ctx) }

// Pause calls a function while etcd refuses writes of the group.
func (k *Keeper) Pause(ctx context.Context, do func(context.Context) error) error {
	if err := k.awaitNoPause(ctx); err != nil {
		return err
	}
	defer func() { k.m.pause = 0 }()
	_, err := k.m.whilePaused(ctx, do)
	return err
}

// awaitNoPause waits until the pause of a move that has died ends. This move has the lock.
func (k *Keeper) awaitNoPause(ctx context.Context) error {
	for until := time.Now().Add(k.m.PauseTTL + lockTimeout); ; {
		at, err := k.m.keys.Read(ctx, k.m.shared)
		switch {
		case err != nil:
			return fmt.Errorf("cannot read from --%s: %w", k.m.GroupOptions.Shared.Flag, err)
		case !at.Paused:
			return nil
		case time.Now().After(until):
			return errors.New("another move has paused writes")
		}
		k.m.progress("waiting for the pause of another move to end")
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-time.After(time.Second):
		}
	}
}

// Put writes the record, unless another move may have begun, and returns the revision of etcd. In Pause, it requires that the pause lasts.
func (k *Keeper) Put(ctx context.Context, record placement.Record) (int64, error) {
	conditions := k.m.locked(k.m.shared, k.m.unchanged(k.m.shared))
	if k.m.pause > 0 {
		conditions = append(conditions, k.m.paused())
	}
	answer, err := k.m.shared.Txn(ctx).If(conditions...).Then(k.m.keys.Put(record)).Commit()
	if err != nil {
		return 0, fmt.Errorf("cannot write to --%s: %w", k.m.GroupOptions.Shared.Flag, err)
	}
	if !answer.Succeeded {
		return 0, errors.New("writes were no longer paused, or another move has begun: run this again")
	}
	k.m.atShared = placement.State{Record: &record, Revision: answer.Header.GetRevision()}
	return answer.Header.GetRevision(), nil
}

// Held returns an error if another move may have begun, or has changed the record.
func (k *Keeper) Held(ctx context.Context) error {
	answer, err := k.m.shared.Txn(ctx).If(k.m.locked(k.m.shared, k.m.unchanged(k.m.shared))...).Commit()
	if err != nil {
		return fmt.Errorf("cannot read from --%s: %w", k.m.GroupOptions.Shared.Flag, err)
	}
	if !answer.Succeeded {
		return errors.New("another move has begun: run this again")
	}
	return nil
}

// Revision returns that of etcd.
func (k *Keeper) Revision(ctx context.Context) (int64, error) { return revision(ctx, k.m.shared) }

// Touch changes etcd, and returns its revision.
func (k *Keeper) Touch(ctx context.Context) (int64, error) {
	answer, err := k.m.shared.Put(ctx, k.m.keys.Raised, "")
	if err != nil {
		return 0, fmt.Errorf("cannot write to --%s: %w", k.m.GroupOptions.Shared.Flag, err)
	}
	return answer.Header.GetRevision(), nil
}

// Raise raises the revision of etcd above a resourceVersion, and returns it. One that no etcd comes to, as of services that count by time,
// needs nothing.
func (k *Keeper) Raise(ctx context.Context, above int64) (int64, error) {
	if above < NoRevision {
		if err := k.m.raise(ctx, above); err != nil {
			return 0, err
		}
	}
	return revision(ctx, k.m.shared)
}

// HasDefinition reports whether etcd has a CustomResourceDefinition, as that of extensions does.
func (k *Keeper) HasDefinition(ctx context.Context, name string) (bool, error) {
	key := path.Join(k.m.Prefix, "apiextensions.k8s.io/customresourcedefinitions", name)
	answer, err := k.m.shared.Get(ctx, key, clientv3.WithCountOnly())
	if err != nil {
		return false, fmt.Errorf("cannot read from --%s: %w", k.m.GroupOptions.Shared.Flag, err)
	}
	return answer.Count > 0, nil
}

// Prune deletes what etcd has of other resources of the group than these, while no client can write any, and returns how many objects.
func (k *Keeper) Prune(ctx context.Context, resources []string) (deleted int64, err error) {
	from, end := k.m.keys.ObjectRange()
	for {
		first, err := k.m.shared.Get(ctx, from, clientv3.WithRange(end), clientv3.WithLimit(1), clientv3.WithKeysOnly())
		if err != nil {
			return deleted, fmt.Errorf("cannot read from --%s: %w", k.m.GroupOptions.Shared.Flag, err)
		}
		if len(first.Kvs) == 0 {
			return deleted, nil
		}
		resource, _, _ := strings.Cut(strings.TrimPrefix(string(first.Kvs[0].Key), k.m.keys.Objects), "/")
		directory := k.m.keys.Objects + resource + "/"
		if from = clientv3.GetPrefixRangeEnd(directory); slices.Contains(resources, resource) {
			continue
		}
		answer, err := k.m.shared.Txn(ctx).If(k.m.locked(k.m.shared, k.m.unchanged(k.m.shared))...).
			Then(clientv3.OpDelete(directory, clientv3.WithPrefix())).Commit()
		if err != nil {
			return deleted, fmt.Errorf("cannot write to --%s: %w", k.m.GroupOptions.Shared.Flag, err)
		}
		if !answer.Succeeded {
			return deleted, errors.New("another move has begun: run this again")
		}
		deleted += answer.Responses[0].GetResponseDeleteRange().GetDeleted()
	}
}

// NoRevision is beyond the revisions of etcd: that of one that is written a million times in a second for ten years is less.
const NoRevision = 1 << 50
