// Copyright The Tripod Authors.
// SPDX-License-Identifier: Apache-2.0

package member

import (
	"cmp"
	"context"
	"io"
	"maps"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/klog/v2"

	"github.com/tripod-k8s/tripod/services/search/store"
	"github.com/tripod-k8s/tripod/services/search/store/streams"
)

const (
	// checkInterval is how often each member is asked whether it still answers.
	checkInterval = 10 * time.Second
	// checkTimeout is how long a member may take for that. Slower ones are synced by their events and bookmarks only.
	checkTimeout = 3 * time.Second
	// promptAnswer is how long members are waited for that answer promptly.
	promptAnswer = time.Second
	// askSize is how much of the answer is read. That has the metadata of one object, unless there is very much of it.
	askSize = 64 << 10
	// dispatchTime is how long a member may take from a write to the event about it.
	dispatchTime = time.Second
	// silence is after which time without a word a watch is opened anew. Members send a bookmark each minute or so.
	silence = 2 * time.Minute
)

// Checks keep quiet streams from looking old. Bookmarks are too rare for that, and they say nothing about the member's etcd.
//
// In each round, one small consistent list proves that the member's API server and its etcd answer. Then all streams of the member that
// have an open watch and nothing unwritten have what the member had a second ago. A watch that hangs although its member answers is the
// exception: it is opened anew after two minutes of silence. All members of a replica that answer promptly are written in one statement.
type Checks struct {
	store *store.Store
	// checking are the goroutines that ask members. They may outlive their round.
	checking sync.WaitGroup

	mu      sync.Mutex
	members map[*Member]bool
}

// NewChecks returns checks without members.
func NewChecks(s *store.Store) *Checks { return &Checks{store: s, members: map[*Member]bool{}} }

// add includes a member until the result is called. Nil checks include nothing.
func (c *Checks) add(m *Member) (remove func()) {
	if c == nil {
		return func() {}
	}
	c.set(m, true)
	return func() { c.set(m, false) }
}

func (c *Checks) set(m *Member, included bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if included {
		c.members[m] = true
	} else {
		delete(c.members, m)
	}
}

// Run checks until the context ends. Then it waits for the members that are being asked.
func (c *Checks) Run(ctx context.Context) {
	defer c.checking.Wait()
	wait.UntilWithContext(ctx, func(ctx context.Context) { c.roundAt(ctx, time.Now().Add(-dispatchTime)) }, checkInterval)
}

// roundAt asks all members at once, and notes which streams have what the members had at a time. Members that take their time make no other
// look old: those are noted first that answer promptly. A member that is still being asked is left out.
func (c *Checks) roundAt(ctx context.Context, at time.Time) {
	asking, cancel := context.WithTimeout(ctx, 2*checkTimeout)
	defer cancel()
	c.mu.Lock()
	answers, waiting := make(chan []*streams.Stream, len(c.members)), 0
	for m := range c.members {
		if !m.underCheck.CompareAndSwap(false, true) {
			continue
		}
		waiting++
		c.checking.Go(func() {
			defer m.underCheck.Store(false)
			answers <- m.check(asking, at)
		})
	}
	c.mu.Unlock()
	prompt := time.NewTimer(promptAnswer)
	defer prompt.Stop()
	for synced := []*streams.Stream(nil); waiting > 0; {
		select {
		case streams := <-answers:
			if synced, waiting = append(synced, streams...), waiting-1; waiting > 0 {
				continue
			}
		case <-prompt.C:
		case <-asking.Done():
			waiting = 0
		}
		if err := c.store.MarkSynced(ctx, synced, at); err != nil && ctx.Err() == nil {
			klog.V(2).InfoS("Quiet streams look older than they are", "err", err)
		}
		synced = nil
	}
}

// check returns the streams that have all that the member had at a time. It asks about one resource, the next time about the next one.
func (m *Member) check(ctx context.Context, at time.Time) (synced []*streams.Stream) {
	quiet := map[*stream]*following{}
	var asked []*stream
	m.mu.Lock()
	for _, r := range m.streams {
		if f := r.following.Load(); f != nil && f.began.Before(at) {
			quiet[r.stream] = f
			asked = append(asked, r.stream)
		}
	}
	m.checked++
	turn := m.checked
	m.mu.Unlock()
	if len(asked) == 0 {
		return nil
	}
	slices.SortFunc(asked, func(a, b *stream) int { return cmp.Compare(a.kind.String(), b.kind.String()) })
	for tries := 0; ; tries++ {
		if len(asked) == 0 || tries == 2 {
			return nil
		}
		one := asked[turn%len(asked)]
		err := one.ask(ctx)
		if err == nil {
			break
		}
		klog.V(4).InfoS("Member does not answer a check", "cluster", m.name, "resource", one.resource, "err", err)
		// Another API server may serve that group. It speaks for no other.
		same := func(s *stream) bool { return s.kind.Group == one.kind.Group }
		asked = slices.DeleteFunc(asked, same)
		maps.DeleteFunc(quiet, func(s *stream, _ *following) bool { return same(s) })
	}
	for s, f := range quiet {
		if s.following.Load() == f && f.unwritten.Load() == 0 {
			f.checked.Store(at.UnixNano())
			synced = append(synced, f.target)
		}
	}
	return synced
}

// ask reads the beginning of a list of a resource, as it is now. API servers ask their etcd for that.
func (s source) ask(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, checkTimeout)
	defer cancel()
	if len(s.namespaces) > 0 {
		s = s.in(s.namespaces[0])
	}
	body, err := s.request(map[string]string{"limit": "1"}).
		SetHeader("Accept", "application/json;as=PartialObjectMetadataList;g=meta.k8s.io;v=v1,application/json").Stream(expecting(ctx, streamed))
	if err != nil {
		return err
	}
	defer body.Close() //nolint:errcheck // it was read
	_, err = io.Copy(io.Discard, io.LimitReader(body, askSize))
	return err
}

// following is an open watch.
type following struct {
	began  time.Time
	target *streams.Stream
	// unwritten counts events that were read and are not in the store yet, and watches of which something may have come that is not read to
	// its end.
	unwritten atomic.Int64
	// checked is when the last check has found that the store had everything, in nanoseconds since 1970.
	checked atomic.Int64
	// caught is up to when the store had all that the member had sent, in nanoseconds since 1970. It counts once listed is set, at the end of
	// the initial list.
	caught atomic.Int64
	listed atomic.Bool
}

// count counts what is unwritten.
func (f *following) count(more int64) {
	if now := f.unwritten.Add(more); now == 0 || now == more { // nothing is missing, or nothing was until now
		f.caughtUp(time.Now())
	}
}

// caughtUp says up to when the store has all.
func (f *following) caughtUp(at time.Time) { f.caught.Store(max(f.caught.Load(), at.UnixNano())) }

// syncedSince returns up to when all was synced: since then, or when the last check was. It is zero if neither is known.
func (f *following) syncedSince(then time.Time) time.Time {
	if at := f.checked.Load(); at > 0 && time.Unix(0, at).After(then) {
		return time.Unix(0, at)
	}
	return then
}

// isListed says that the watch begins, or goes on after its initial list.
func (f *following) isListed() {
	f.caughtUp(time.Now())
	f.listed.Store(true)
}
