// Copyright The Tripod Authors.
// SPDX-License-Identifier: Apache-2.0

package split

import (
	"cmp"
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"path"
	"slices"
	"strings"
	"time"

	"go.etcd.io/etcd/api/v3/mvccpb"
	clientv3 "go.etcd.io/etcd/client/v3"

	"k8s.io/apimachinery/pkg/util/validation"

	"github.com/tripod-k8s/tripod/base/hop/addresses"
	"github.com/tripod-k8s/tripod/base/storage/placement"
	"github.com/tripod-k8s/tripod/services/list"
)

// PauseTTL is how long writes stay paused after a move has died.
const PauseTTL = 10 * time.Second

// MaxPause is how long a move may pause writes before it gives up.
const MaxPause = time.Minute

// ahead is how many revisions the target is raised beyond the source while writes go on. A fifth of it must be left when they pause.
const ahead = 5000

// lockTimeout is how much longer than the lock of a move that has died the next move waits.
const lockTimeout = 5 * time.Second

// errReplicasFirst is what to do if no replica would use the etcd.
var errReplicasFirst = errors.New(
	"start replicas with the etcd first (--group-etcd-servers, or --extensions-partition-etcd-servers of tripod up)")

// GroupOptions say which API groups to move, and where to.
type GroupOptions struct {
	// Shared is the etcd that has the CustomResourceDefinitions, Own the one of the partition.
	Shared, Own Etcd
	// To is the name of the partition, or extensions to move the objects back to Shared.
	To string
	// Groups are API groups.
	Groups []string
	// Prefix is the --etcd-prefix of the services, /registry.
	Prefix string
	// DryRun only says what would move.
	DryRun bool
	// DeleteSource deletes what was copied from the etcd that had it.
	DeleteSource bool
	// Progress gets a line about each step, and its progress.
	Progress func(line string)

	// PauseTTL is another PauseTTL, if not 0. It has whole seconds.
	PauseTTL time.Duration
	// MaxPause is another MaxPause, if not 0.
	MaxPause time.Duration

	// ahead is another ahead, if not 0.
	ahead int64
}

// GroupReport says what was done with an API group.
type GroupReport struct {
	Group string `json:"group"`
	// To is where the objects are now. Moved says that this run has brought them there.
	To    string `json:"to"`
	Moved bool   `json:"moved"`
	// Resources are what was compared, while writes were paused. With DryRun, they are what the source has.
	Resources []Resource `json:"resources"`
	// Bytes is the size of the objects with their keys.
	Bytes int64 `json:"bytes"`
	// Seconds is how long the run took, and PausedSeconds for how long writes were paused. With DryRun, both are estimates.
	Seconds       float64 `json:"seconds"`
	PausedSeconds float64 `json:"pausedSeconds"`
	// Floor is the first resourceVersion after the move.
	Floor int64 `json:"floor,omitempty"`
	// DeletedFromSource counts the objects that were deleted from the etcd that had them.
	DeletedFromSource int64 `json:"deletedFromSource"`
}

// MoveGroups moves the objects of API groups to another etcd while replicas serve them. One group moves after the other. The report has
// those that are done also when there is an error.
func MoveGroups(ctx context.Context, o GroupOptions) ([]GroupReport, error) {
	if err := o.validate(); err != nil {
		return nil, err
	}
	shared, err := o.Shared.dial(ctx)
	if err != nil {
		return nil, err
	}
	defer shared.Close() //nolint:errcheck // nothing is pending
	own, err := o.Own.dial(ctx)
	if err != nil {
		return nil, err
	}
	defer own.Close() //nolint:errcheck // nothing is pending
	o.Prefix, o.ahead, o.PauseTTL = path.Join("/", o.Prefix), cmp.Or(o.ahead, ahead), cmp.Or(o.PauseTTL, PauseTTL)
	moves := make([]*move, 0, len(o.Groups))
	for _, name := range o.Groups {
		m := newMove(&o, name, shared, own)
		// Nothing moves unless everything can.
		if err := m.look(ctx); err != nil {
			return nil, fmt.Errorf("%s: %w", name, err)
		}
		moves = append(moves, m)
	}
	var reports []GroupReport
	for i, m := range moves {
		// Those before may have taken hours.
		if i > 0 {
			if err := m.look(ctx); err != nil {
				return reports, fmt.Errorf("%s: %w", m.group, err)
			}
		}
		if err := m.run(ctx); err != nil {
			return reports, fmt.Errorf("%s: %w", m.group, err)
		}
		reports = append(reports, m.result)
	}
	return reports, nil
}

func (o *GroupOptions) validate() error {
	if o.To != list.Extensions {
		if err := addresses.ValidatePartition(o.To); err != nil {
			return fmt.Errorf("--to: %w", err)
		}
	}
	for i, group := range o.Groups {
		if len(validation.IsDNS1123Subdomain(group)) > 0 || !custom("x."+group) {
			return fmt.Errorf("%q is not an API group of custom resources", group)
		}
		if slices.Contains(o.Groups[:i], group) {
			return fmt.Errorf("%s is given twice", group)
		}
	}
	return nil
}

// move moves one API group.
type move struct {
	split
	*GroupOptions
	group       string
	keys        placement.Keys
	shared, own *clientv3.Client
	// away is set for a move to the etcd of the partition.
	away   bool
	result GroupReport
	// atShared and atOwn are the records that the etcds had at first.
	atShared, atOwn placement.State
	resources       []resource
	// pause is the revision of the key that pauses writes.
	pause int64
}

func newMove(o *GroupOptions, group string, shared, own *clientv3.Client) *move {
	m := &move{
		GroupOptions: o, group: group, keys: placement.KeysOf(o.Prefix, group), shared: shared, own: own, away: o.To != list.Extensions,
		result: GroupReport{Group: group, To: o.To},
	}
	m.split = split{source: shared, target: own, inUse: true, Options: Options{
		Source: o.Shared, Target: o.Own, Prefix: o.Prefix, Progress: func(line string) { o.Progress(group + ": " + line) },
	}}
	if !m.away {
		m.split.Source, m.split.Target = o.Own, o.Shared
		m.source, m.target = own, shared
	}
	return m
}

func (m *move) progress(line string) { m.Options.Progress(line) }

// look reads where the objects are, and returns why they cannot move.
func (m *move) look(ctx context.Context) (err error) {
	if err := m.checkDistinct(ctx); err != nil {
		return err
	}
	if m.atShared, err = m.keys.Read(ctx, m.shared); err != nil {
		return fmt.Errorf("cannot read from --%s: %w", m.GroupOptions.Shared.Flag, err)
	}
	if m.atOwn, err = m.keys.Read(ctx, m.own); err != nil {
		return fmt.Errorf("cannot read from --%s: %w", m.GroupOptions.Own.Flag, err)
	}
	all, err := m.split.resources(ctx, m.shared)
	if err != nil {
		return err
	}
	m.resources = slices.DeleteFunc(all, func(r resource) bool { return !strings.HasPrefix(r.prefix, m.keys.Objects) })
	switch {
	case len(m.resources) == 0:
		return fmt.Errorf("--%s has no CustomResourceDefinitions of this group below %s", m.GroupOptions.Shared.Flag, m.GroupOptions.Prefix)
	case m.atShared.Record != nil && (m.atShared.Record.Service != "" || m.atShared.Record.Switching):
		return fmt.Errorf("its objects are in an API service, or on their way: first bring them back, by tripod migrate crd %s --back", m.group)
	case m.atShared.Paused || m.atOwn.Paused:
		return errors.New("another move has paused writes: wait until it is done, or 10 seconds if it has died")
	case m.atShared.IsOwn() && (m.atOwn.Record == nil || m.atOwn.Record.Move != m.atShared.Record.Move):
		return m.notTheOne()
	case m.atShared.IsOwn() && m.atOwn.Record.Left:
		return fmt.Errorf("its objects have left --%s, but --%s has a record that they are there: was one of both restored, or the record "+
			"changed? If those in --%[2]s are right, delete %[3]s there", m.GroupOptions.Own.Flag, m.GroupOptions.Shared.Flag, m.keys.Record)
	case m.isForgotten() && (m.atShared.HasObjects || !m.away):
		return m.forgotten()
	case m.away && (m.atShared.IsOwn() || m.isForgotten()) && m.atOwn.Reader != "" && m.atOwn.Reader != addresses.PartitionBackend(m.To):
		return fmt.Errorf("its objects are in --%s, which is the etcd of %s for this group, and not of a partition %s",
			m.GroupOptions.Own.Flag, m.atOwn.Reader, m.To)
	case m.away && !m.atShared.IsOwn() && !m.isForgotten() && m.atOwn.Reader != addresses.PartitionBackend(m.To):
		return fmt.Errorf("no replica of the partition %s has the etcd of --%s for this group: %w",
			m.To, m.GroupOptions.Own.Flag, errReplicasFirst)
	}
	return nil
}

// notTheOne is the error if the etcds name different moves.
func (m *move) notTheOne() error {
	err := fmt.Errorf("its objects are in an etcd of their own, which is not the one of --%s", m.GroupOptions.Own.Flag)
	if m.atOwn.IsHome() {
		err = fmt.Errorf("%w, though that has objects, too. If it is the right one, the record was changed: delete %s in --%s",
			err, m.keys.Record, m.GroupOptions.Shared.Flag)
	}
	return err
}

// isForgotten reports whether the objects are in the etcd of the partition, and the shared one knows nothing of that, as after a restore.
// Another user of the shared etcd may also have changed its record.
func (m *move) isForgotten() bool {
	return !m.atShared.IsOwn() && m.atOwn.IsHome() && (m.atOwn.HasObjects || m.atShared.Record != nil)
}

// forgotten is the error if the record cannot be written again without a decision.
func (m *move) forgotten() error {
	shared, own := m.GroupOptions.Shared.Flag, m.GroupOptions.Own.Flag
	switch {
	case m.atShared.Record != nil && m.atShared.HasObjects:
		return fmt.Errorf("--%[1]s and --%[2]s both have objects, and each has a record that they are there: restore the one that is wrong. "+
			"Or delete %[3]s in --%[2]s if those in --%[1]s are right, and otherwise all below %[4]s in --%[1]s",
			shared, own, m.keys.Record, m.keys.Objects)
	case m.atShared.HasObjects:
		return fmt.Errorf("--%s has lost the record of this group, whose objects are in --%s, and has others: restore it to a later "+
			"state, or delete those below %s", shared, own, m.keys.Objects)
	}
	return fmt.Errorf("--%s has lost the record of this group, whose objects are in --%s: first write it again, by --to with the partition",
		shared, own)
}

// remember has the shared etcd know again where the objects are. Clients know no resourceVersions but those of the partition's etcd.
func (m *move) remember(ctx context.Context) error {
	m.progress("its objects are there; writing the record of that again")
	record := placement.Record{Own: true, Move: m.atOwn.Record.Move}
	answer, err := m.shared.Txn(ctx).If(m.locked(m.shared, m.unchanged(m.shared), m.keys.Empty())...).Then(m.keys.Put(record)).Commit()
	if err != nil {
		return fmt.Errorf("cannot write to --%s: %w", m.GroupOptions.Shared.Flag, err)
	}
	if !answer.Succeeded {
		return errors.New("the group was used meanwhile: nothing was written; run this again")
	}
	m.result.Floor = m.atOwn.Record.Floor
	return nil
}

// run moves the objects, unless they are there.
func (m *move) run(ctx context.Context) error {
	began := time.Now()
	if m.DryRun {
		return m.estimate(ctx)
	}
	unlock, err := m.lock(ctx)
	defer unlock()
	if err != nil {
		return err
	}
	if err := m.moveOnce(ctx); err != nil {
		return err
	}
	if m.GroupOptions.DeleteSource {
		if err := m.deleteCopied(ctx); err != nil {
			return err
		}
	}
	m.result.Seconds = time.Since(began).Seconds()
	return nil
}

// lock makes this the only move of the group, until unlock. A process that stands still for longer than PauseTTL finds that it is not, at
// its next write: so none writes into an etcd that another move has given to clients.
func (m *move) lock(ctx context.Context) (unlock func(), err error) {
	m.locks = map[*clientv3.Client]clientv3.Cmp{}
	var all []func()
	unlock = func() {
		for _, each := range all {
			each()
		}
	}
	for _, etcd := range []*clientv3.Client{m.shared, m.own} {
		if etcd == nil { // that of the group's own, if it has none
			continue
		}
		lease, end, err := m.keepLease(ctx, etcd)
		all = append(all, end)
		if err != nil {
			return unlock, err
		}
		if m.locks[etcd], err = m.lockOne(ctx, etcd, lease); err != nil {
			return unlock, err
		}
	}
	return unlock, nil
}

// lockOne returns the lock of an etcd. It waits until the lock of a move that has died ends.
func (m *move) lockOne(ctx context.Context, etcd *clientv3.Client, lease clientv3.LeaseID) (clientv3.Cmp, error) {
	held := errors.New("another move of this group is under way")
	for until := time.Now().Add(m.PauseTTL + lockTimeout); ; {
		answer, err := etcd.Txn(ctx).
			If(clientv3.Compare(clientv3.CreateRevision(m.keys.Mover), "=", 0), m.unchanged(etcd)).
			Then(clientv3.OpPut(m.keys.Mover, m.To, clientv3.WithLease(lease))).
			Else(clientv3.OpGet(m.keys.Mover, clientv3.WithCountOnly())).Commit()
		switch {
		case err != nil:
			return clientv3.Cmp{}, fmt.Errorf("cannot write to etcd: %w", err)
		case answer.Succeeded:
			return clientv3.Compare(clientv3.CreateRevision(m.keys.Mover), "=", answer.Header.GetRevision()), nil
		case answer.Responses[0].GetResponseRange().GetCount() == 0:
			return clientv3.Cmp{}, errors.New("another move of this group has just ended: nothing was moved; run this again")
		case time.Now().After(until):
			return clientv3.Cmp{}, held
		}
		m.progress("waiting for another move to end")
		select {
		case <-ctx.Done():
			return clientv3.Cmp{}, fmt.Errorf("%w: %w", held, ctx.Err())
		case <-time.After(time.Second):
		}
	}
}

// keepLease returns a lease that lives until end, or PauseTTL after this process has died.
func (m *move) keepLease(ctx context.Context, etcd *clientv3.Client) (id clientv3.LeaseID, end func(), err error) {
	lease, err := etcd.Grant(ctx, int64(m.PauseTTL.Seconds()))
	if err != nil {
		return 0, func() {}, fmt.Errorf("cannot create a lease: %w", err)
	}
	keeping, cancel := context.WithCancel(ctx)
	end = func() {
		cancel()
		ending, cancel := context.WithTimeout(context.WithoutCancel(ctx), answerTimeout)
		defer cancel()
		etcd.Revoke(ending, lease.ID) //nolint:errcheck // it ends by itself
	}
	alive, err := etcd.KeepAlive(keeping, lease.ID)
	if err != nil {
		return 0, end, fmt.Errorf("cannot keep a lease: %w", err)
	}
	go func() {
		for range alive {
		}
	}()
	return lease.ID, end, nil
}

func (m *move) moveOnce(ctx context.Context) error {
	switch {
	case m.isForgotten():
		return m.remember(ctx)
	case m.away && m.atShared.IsOwn() && !m.atOwn.IsOwn():
		m.progress("taking up writes again, which an interrupted move has stopped")
		open := *m.atOwn.Record
		open.Own = true
		return m.change(ctx, m.own, m.keys.Put(open))
	case m.away == m.atShared.IsOwn():
		m.progress("its objects are there")
		return m.settle(ctx)
	}
	if err := m.copyWhileWritten(ctx); err != nil {
		return err
	}
	began, err := m.whilePaused(ctx, func(ctx context.Context) error {
		if err := Within(ctx, cmp.Or(m.MaxPause, MaxPause), m.copyRest); err != nil {
			return err
		}
		return m.hand(ctx)
	})
	if err != nil {
		return err
	}
	m.result.PausedSeconds = time.Since(began).Seconds()
	m.result.Moved = true
	m.progress(fmt.Sprintf("moved; writes were paused for %.1f s", m.result.PausedSeconds))
	return nil
}

// copyWhileWritten copies what is there now, while writes go on. So less is left to do while they pause.
func (m *move) copyWhileWritten(ctx context.Context) error {
	now, err := revision(ctx, m.source)
	if err != nil {
		return err
	}
	if err := m.raise(ctx, now+m.ahead); err != nil {
		return err
	}
	for _, r := range m.resources {
		if err := m.copy(ctx, r); err != nil {
			return err
		}
	}
	m.since = now
	return nil
}

// copyRest copies what has changed since, and compares. The copies get resourceVersions that no state in the source has had.
func (m *move) copyRest(ctx context.Context) error {
	if err := m.raise(ctx, m.pause+m.ahead/5); err != nil {
		return err
	}
	all, err := m.split.resources(ctx, m.shared)
	if err != nil {
		return err
	}
	m.resources = slices.DeleteFunc(all, func(r resource) bool { return !strings.HasPrefix(r.prefix, m.keys.Objects) })
	for _, r := range m.resources {
		if err := m.copy(ctx, r); err != nil {
			return err
		}
	}
	m.progress("comparing both etcds")
	for _, r := range m.resources {
		source, found, err := sum(ctx, m.source, r)
		if err != nil {
			return err
		}
		target, _, err := sum(ctx, m.target, r)
		if err != nil {
			return err
		}
		if source != target {
			return fmt.Errorf("%s differs: %d objects with checksum %s, and %d with %s: nothing was moved", r.name,
				source.Objects, source.Checksum, target.Objects, target.Checksum)
		}
		m.result.Resources = append(m.result.Resources, source)
		m.result.Bytes += found.bytes
	}
	// Writes of other groups raise the source until the end. Lists of this group have its revision, and a watch from beyond the revision of
	// the target would miss events.
	now, err := revision(ctx, m.source)
	if err != nil {
		return err
	}
	return m.raise(ctx, now+m.ahead/5)
}

// whilePaused calls a function while etcd refuses writes of the group, and returns since when. If this process dies, they go on.
func (m *move) whilePaused(ctx context.Context, do func(context.Context) error) (began time.Time, err error) {
	lease, end, err := m.keepLease(ctx, m.source)
	defer end()
	if err != nil {
		return began, err
	}
	m.progress("pausing writes")
	began = time.Now()
	answer, err := m.source.Txn(ctx).
		If(m.locked(m.source, clientv3.Compare(clientv3.CreateRevision(m.keys.Pause), "=", 0), m.unchanged(m.source))...).
		Then(clientv3.OpPut(m.keys.Pause, m.To, clientv3.WithLease(lease))).Commit()
	if err != nil {
		return began, fmt.Errorf("cannot pause writes: %w", err)
	}
	if !answer.Succeeded {
		return began, errors.New("another move has begun: nothing was moved")
	}
	m.pause = answer.Header.GetRevision()
	return began, do(ctx)
}

// Within calls a function that works while writes are paused, and ends it when they have been paused for long enough.
func Within(ctx context.Context, most time.Duration, do func(context.Context) error) error {
	within, cancel := context.WithTimeout(ctx, most)
	defer cancel()
	err := do(within)
	if err != nil && ctx.Err() == nil && within.Err() != nil {
		return fmt.Errorf("writes were paused for %v, which is --max-pause, and nothing was moved: "+
			"run this again when there are fewer writes, or with a longer --max-pause", most)
	}
	return err
}

// unchanged is true if the record of an etcd is as it was at first.
func (m *move) unchanged(etcd *clientv3.Client) clientv3.Cmp {
	at := m.atShared
	if etcd == m.own {
		at = m.atOwn
	}
	return m.keys.RecordUnchanged(at.Revision)
}

// paused is true as long as writes are paused by this move.
func (m *move) paused() clientv3.Cmp {
	return clientv3.Compare(clientv3.CreateRevision(m.keys.Pause), "=", m.pause)
}

// hand has the target own the objects. The record in the shared etcd decides, and the one in the partition's etcd must consent.
func (m *move) hand(ctx context.Context) error {
	record := placement.Record{Own: m.away, Move: rand.Text(), Pending: !m.away}
	if m.away {
		// Replicas do not look there before the record in the shared etcd has the same name.
		m.progress("opening the etcd of the partition")
		pending := record
		pending.Pending = true
		answer, err := m.own.Txn(ctx).If(m.locked(m.own, m.unchanged(m.own))...).Then(m.keys.Put(pending)).Commit()
		if err != nil {
			return fmt.Errorf("cannot write to the target: %w", err)
		}
		if !answer.Succeeded {
			return errors.New("a replica has begun to use the target: nothing was moved; run this again")
		}
	} else if err := m.close(ctx); err != nil {
		return err
	}
	m.progress("switching")
	conditions := m.locked(m.shared, m.unchanged(m.shared))
	if m.away {
		conditions = append(conditions, m.paused())
	}
	answer, err := m.shared.Txn(ctx).If(conditions...).Then(m.keys.Put(record)).Commit()
	if err != nil {
		return fmt.Errorf("cannot write to --%s: %w", m.GroupOptions.Shared.Flag, err)
	}
	if !answer.Succeeded {
		return errors.New("writes were no longer paused: nothing was moved; run this again")
	}
	return m.settle(ctx)
}

// settle ends a move, unless a replica has done so: the etcd that had the objects says that they have left, and the other one from which
// resourceVersion on it has them. That is beyond what clients know of the former, which others may have raised until the switch.
func (m *move) settle(ctx context.Context) error {
	m.progress("ending the move")
	if !m.away {
		if err := m.markLeft(ctx); err != nil {
			return err
		}
	}
	for {
		at, err := m.keys.Read(ctx, m.target)
		if err != nil {
			return fmt.Errorf("cannot read from the target: %w", err)
		}
		if at.Record == nil { // a group that was never anywhere else
			return nil
		}
		if !at.Record.Pending {
			m.result.Floor = at.Record.Floor
			return m.agree(ctx, at.Record.Move)
		}
		last, err := revision(ctx, m.source)
		if err != nil {
			return err
		}
		if err := m.raise(ctx, last+m.ahead/5); err != nil {
			return err
		}
		settled := placement.Record{Own: m.away, Move: at.Record.Move}
		if settled.Floor, err = revision(ctx, m.target); err != nil {
			return err
		}
		if _, err := m.target.Txn(ctx).If(m.keys.RecordUnchanged(at.Revision)).Then(m.keys.Put(settled)).Commit(); err != nil {
			return fmt.Errorf("cannot write to the target: %w", err)
		}
	}
}

// agree returns an error if the shared etcd does not say any more that this move has brought the objects to the partition's etcd. Replicas
// that have looked since may have used the shared one until the record of the other one says that it has them.
func (m *move) agree(ctx context.Context, move string) error {
	if !m.away {
		return nil
	}
	at, err := m.keys.Read(ctx, m.shared)
	if err != nil {
		return fmt.Errorf("cannot read from --%s: %w", m.GroupOptions.Shared.Flag, err)
	}
	if !at.IsOwn() || at.Record.Move != move {
		return fmt.Errorf("something else than this command has changed the record of the group in --%s during the move, and replicas may have "+
			"written there since: compare the objects in both, and run this again, which says how to go on", m.GroupOptions.Shared.Flag)
	}
	return nil
}

// markLeft has replicas read nothing from the partition's etcd any more, also those that have not received the switch.
func (m *move) markLeft(ctx context.Context) error {
	for {
		at, err := m.keys.Read(ctx, m.own)
		if err != nil {
			return fmt.Errorf("cannot read from --%s: %w", m.GroupOptions.Own.Flag, err)
		}
		if !at.IsClosed() {
			return nil
		}
		left := *at.Record
		left.Left = true
		if _, err := m.own.Txn(ctx).If(m.keys.RecordUnchanged(at.Revision)).Then(m.keys.Put(left)).Commit(); err != nil {
			return fmt.Errorf("cannot write to --%s: %w", m.GroupOptions.Own.Flag, err)
		}
	}
}

// close closes the partition's etcd for good. From then until the record in the shared etcd changes, the objects are there, and only a move
// may go on.
func (m *move) close(ctx context.Context) error {
	m.progress("closing the etcd of the partition")
	closed := *m.atOwn.Record
	closed.Own = false
	answer, err := m.own.Txn(ctx).If(m.locked(m.own, m.paused(), m.unchanged(m.own))...).
		Then(m.keys.Put(closed)).Commit()
	if err != nil {
		return fmt.Errorf("cannot write to --%s: %w", m.GroupOptions.Own.Flag, err)
	}
	if !answer.Succeeded {
		return errors.New("writes were no longer paused: nothing was moved; run this again")
	}
	return nil
}

// deleteCopied deletes the objects from the etcd that does not have them any more. No replica may write there.
func (m *move) deleteCopied(ctx context.Context) error {
	state, err := m.keys.Read(ctx, m.shared)
	if err != nil {
		return err
	}
	own, err := m.keys.Read(ctx, m.own)
	if err != nil {
		return err
	}
	if state.IsOwn() != m.away || own.IsHome() != m.away {
		return errors.New("its objects have moved again: nothing is deleted")
	}
	now, err := revision(ctx, m.source)
	if err != nil {
		return err
	}
	for _, r := range m.resources {
		m.progress("deleting " + r.name + " where it was")
		if err := m.deleteResource(ctx, r, now); err != nil {
			return err
		}
	}
	m.result.DeletedFromSource = m.report.DeletedFromSource
	return nil
}

// estimate reads all objects once, and says how long a move would take.
func (m *move) estimate(ctx context.Context) error {
	if m.away == m.atShared.IsOwn() || m.isForgotten() {
		m.progress("its objects are there")
		return nil
	}
	began := time.Now()
	var objects int64
	for _, r := range m.resources {
		one, found, err := sum(ctx, m.source, r)
		if err != nil {
			return err
		}
		m.result.Resources = append(m.result.Resources, one)
		m.result.Bytes += found.bytes
		objects += one.Objects
	}
	reading := time.Since(began).Seconds()
	// While writes pause, all objects are read four times: twice to find what has changed, and twice to compare.
	m.result.PausedSeconds = 4*reading + fixedPause
	m.result.Seconds = m.result.PausedSeconds + 2*reading + float64(objects)/writesPerSecond
	return nil
}

const (
	// fixedPause is how long writes pause without objects, and writesPerSecond how many objects are copied in a second, both by experience.
	fixedPause      = 0.2
	writesPerSecond = 5000
)

// has reports whether the copy of an object from before is still good.
func (s *split) has(entry *mvccpb.KeyValue) bool { return s.since > 0 && entry.ModRevision <= s.since }
