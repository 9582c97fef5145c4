// Copyright The Tripod Authors.
// SPDX-License-Identifier: Apache-2.0

package watches

import (
	"bytes"
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"hash/maphash"
	"io"
	"runtime"
	"slices"
	"sync"
)

// Kinds of frames.
const (
	frameChunk = iota
	frameDeliver
	frameEnd
)

// pendingGroup and pendingReference are what a group counts of limits.pending, and each watch that it has: their memory.
const (
	pendingGroup     = 72
	pendingReference = 8
)

var (
	errEnded  = errors.New("the session of the watch has ended")
	errCredit = errors.New("credit for more than a window")
)

// sender is the end of a session at which watches write.
type sender struct {
	limits *limits
	hash   func([]byte) uint64
	// written is signalled after something was written.
	written chan struct{}
	// ended is closed when the session ends.
	ended chan struct{}

	mu     sync.Mutex
	ring   ring
	byHash map[uint64]uint64 // the numbers of chunks in the ring
	lanes  map[uint64]*lane
	// pending are the groups to send, and size is what they count of limits.pending. The first one has the number sent.
	pending []group
	size    int
	sent    uint64
	// taken is closed when the pending groups are sent. It is nil while no goroutine waits for that.
	taken chan struct{}
	// spare are slices for the watches of groups.
	spare [][]uint64
}

// group is a chunk and the watches that receive it, or the end of a watch.
type group struct {
	// chunk is the number of the chunk, and bytes are its bytes if it is new.
	chunk   uint64
	bytes   []byte
	watches []uint64
	end     bool
}

// lane is a watch at the sender.
type lane struct {
	sender *sender
	watch  uint64
	// more is signalled after the credit grew.
	more chan struct{}

	// The lock of the sender guards the rest. last is the number of the last group of the watch.
	credit int
	last   uint64
}

func newSender(l *limits) *sender {
	seed := maphash.MakeSeed()
	return &sender{
		limits: l, hash: func(b []byte) uint64 { return maphash.Bytes(seed, b) },
		written: make(chan struct{}, 1), ended: make(chan struct{}),
		ring: newRing(l), byHash: map[uint64]uint64{}, lanes: map[uint64]*lane{},
	}
}

// add adds a watch. It returns nil if the session has ended, if there is such a watch, or if much more is pending than watches may write.
// Only the ends of watches do not wait. Nothing else limits them while watches come and go, and the aggregator reads nothing.
func (s *sender) add(watch uint64) *lane {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.lanes == nil || s.lanes[watch] != nil || s.size >= 2*s.limits.pending {
		return nil
	}
	l := &lane{sender: s, watch: watch, more: make(chan struct{}, 1), credit: s.limits.window}
	s.lanes[watch] = l
	return l
}

// write sends p to the watch. It waits for credit, and while too much is pending.
func (l *lane) write(ctx context.Context, p []byte) error {
	for part := range slices.Chunk(p, l.sender.limits.chunk) {
		if err := l.writeChunk(ctx, part, l.sender.hash(part)); err != nil {
			return err
		}
	}
	return nil
}

func (l *lane) writeChunk(ctx context.Context, p []byte, hash uint64) error {
	s := l.sender
	cost := s.limits.cost(p)
	for {
		s.mu.Lock()
		taken := s.taken
		switch {
		case s.lanes == nil:
			s.mu.Unlock()
			return errEnded
		case l.credit < cost:
			taken = nil
		case s.size < s.limits.pending:
			l.credit -= cost
			s.put(l, p, hash)
			s.mu.Unlock()
			signal(s.written)
			return nil
		case taken == nil:
			taken = make(chan struct{})
			s.taken = taken
		}
		s.mu.Unlock()
		select {
		case <-taken:
		case <-l.more:
		case <-s.ended:
			return errEnded
		case <-ctx.Done():
			return ctx.Err()
		}
	}
}

// put adds a chunk for a watch to the pending groups.
func (s *sender) put(l *lane, p []byte, hash uint64) {
	number, known := s.byHash[hash]
	if known {
		if c := s.ring.at(number); bytes.Equal(c.bytes, p) {
			// The watch must receive its chunks in order. So it cannot join a group before its last one.
			if c.group >= s.sent && c.group >= l.last {
				g := &s.pending[c.group-s.sent]
				g.watches = append(g.watches, l.watch)
				l.last = c.group
				s.size += pendingReference
			} else {
				c.group = s.begin(l, group{chunk: number})
			}
			return
		}
	}
	c := chunk{bytes: bytes.Clone(p), hash: hash}
	number = s.ring.add(c, s.forget)
	s.byHash[hash] = number
	s.ring.at(number).group = s.begin(l, group{chunk: number, bytes: c.bytes})
	s.size += len(p)
}

// begin appends a group with one watch, and returns its number.
func (s *sender) begin(l *lane, g group) uint64 {
	if n := len(s.spare); n > 0 {
		g.watches, s.spare = s.spare[n-1], s.spare[:n-1]
	}
	g.watches = append(g.watches, l.watch)
	s.pending = append(s.pending, g)
	s.size += pendingGroup + pendingReference
	l.last = s.sent + uint64(len(s.pending)) - 1
	return l.last
}

func (s *sender) forget(number uint64, c *chunk) {
	if s.byHash[c.hash] == number { // and not that of other bytes with the same hash
		delete(s.byHash, c.hash)
	}
}

// end says that nothing more comes for the watch.
func (l *lane) end() {
	s := l.sender
	s.mu.Lock()
	if s.lanes != nil {
		delete(s.lanes, l.watch)
		s.begin(l, group{end: true})
	}
	s.mu.Unlock()
	signal(s.written)
}

// grant lets a watch send more. It ignores watches that have ended.
func (s *sender) grant(watch, n uint64) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	l := s.lanes[watch]
	if l == nil {
		return nil
	}
	if n > uint64(s.limits.window-l.credit) {
		return errCredit
	}
	l.credit += int(n)
	signal(l.more)
	return nil
}

// close ends the session. Watches can write no more.
func (s *sender) close() {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.lanes != nil {
		s.lanes = nil
		close(s.ended)
	}
}

// receiveCredits reads credits until the stream ends.
func (s *sender) receiveCredits(r io.ByteReader) error {
	for {
		watch, err := binary.ReadUvarint(r)
		if err != nil {
			return err
		}
		n, err := binary.ReadUvarint(r)
		if err != nil {
			return err
		}
		if err := s.grant(watch, n); err != nil {
			return fmt.Errorf("watch %d: %w", watch, err)
		}
	}
}

// run writes frames until the session is to end, and what is written before. send writes its argument and flushes it.
func (s *sender) run(end <-chan struct{}, send func([]byte) error) error {
	var groups []group
	var buffer []byte
	for ending := false; !ending; {
		select {
		case <-s.written:
		case <-end:
			s.close()
			ending = true
		}
		// An event wakes many watches. What they write before this goroutine runs again leaves together.
		runtime.Gosched()
		var number uint64
		groups, number = s.take(groups)
		buffer = encode(buffer[:0], groups, number)
		if len(buffer) == 0 {
			continue
		}
		if err := send(buffer); err != nil {
			return err
		}
		if cap(buffer) > maxIdle {
			buffer = nil
		}
		if cap(groups) > maxIdle/pendingGroup {
			groups = nil
		}
	}
	return nil
}

// maxIdle is the size of a buffer that a session keeps while it sends nothing.
const maxIdle = 64 << 10

// take returns the pending groups, and the number of the last chunk that was sent before them. It takes back the groups that were returned
// before.
func (s *sender) take(before []group) (groups []group, number uint64) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for i := range before {
		if watches := before[i].watches; len(s.spare) < s.limits.chunks && cap(watches) <= maxIdle/pendingReference {
			s.spare = append(s.spare, watches[:0])
		}
	}
	clear(before)
	groups = s.pending
	s.pending = before[:0]
	s.sent += uint64(len(groups))
	s.size = 0
	if s.taken != nil {
		close(s.taken)
		s.taken = nil
	}
	number = s.ring.next
	for i := range groups {
		if groups[i].bytes != nil {
			number--
		}
	}
	return groups, number
}

// encode appends the frames of groups. Before them, chunks with numbers below next were sent.
func encode(b []byte, groups []group, next uint64) []byte {
	for i := range groups {
		g := &groups[i]
		if g.end {
			b = append(b, frameEnd)
			b = binary.AppendUvarint(b, g.watches[0])
			continue
		}
		if g.bytes != nil {
			b = append(b, frameChunk)
			b = binary.AppendUvarint(b, uint64(len(g.bytes)))
			b = append(b, g.bytes...)
			next++
		}
		b = append(b, frameDeliver)
		b = binary.AppendUvarint(b, next-1-g.chunk)
		b = binary.AppendUvarint(b, uint64(len(g.watches)))
		slices.Sort(g.watches)
		last := uint64(0)
		for _, watch := range g.watches {
			b = binary.AppendUvarint(b, watch-last)
			last = watch
		}
	}
	return b
}

// signal wakes up the receiver, now or when it receives next.
func signal(c chan<- struct{}) {
	select {
	case c <- struct{}{}:
	default:
	}
}
