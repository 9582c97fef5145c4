// Copyright The Tripod Authors.
// SPDX-License-Identifier: Apache-2.0

package watches

import (
	"bufio"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"maps"
	"sync"

	"github.com/tripod-k8s/tripod/base/hop/recovery"
)

// Receiver is the end of a session at which answers to watches arrive.
type Receiver struct {
	limits *limits
	// carried counts bytes of chunks, and delivered those bytes as often as watches received them.
	carried, delivered func(bytes int)
	// idle is called when the last watch leaves.
	idle func()

	mu sync.Mutex
	// bodies is nil once the session has ended.
	bodies map[uint64]*Body
	// connections are those of the clients of the watches.
	connections map[string]*connection
	// groups and watches count all groups and watches so far.
	groups, watches uint32
	// owed are credits that the sender has not got. earned is signalled when there are some.
	owed   map[uint64]int
	earned chan struct{}
	// ended is closed when the session ends.
	ended chan struct{}
}

// connection is a connection of a client with watches.
type connection struct {
	group   uint32
	watches int
}

// Config has the callbacks of a receiver. The functions must not block.
type Config struct {
	// Carried gets the bytes of each chunk, and Delivered those that watches receive of it together.
	Carried, Delivered func(bytes int)
	// Idle is called when the last watch leaves.
	Idle func()
}

// NewReceiver returns the receiver of a new session.
func NewReceiver(c Config) *Receiver { return newReceiver(c, &standard) }

func newReceiver(c Config, l *limits) *Receiver {
	return &Receiver{
		limits: l, carried: c.Carried, delivered: c.Delivered, idle: c.Idle,
		bodies: map[uint64]*Body{}, connections: map[string]*connection{},
		owed: map[uint64]int{}, earned: make(chan struct{}, 1), ended: make(chan struct{}),
	}
}

// Watch adds a watch of a client, whose connection has a name. It returns nil if the session has ended.
func (r *Receiver) Watch(of string) *Body {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.bodies == nil || r.watches == 1<<32-1 {
		return nil
	}
	c := r.connections[of]
	if c == nil {
		r.groups++
		c = &connection{group: r.groups}
		r.connections[of] = c
	}
	c.watches++
	r.watches++
	// The sender sorts by these numbers. So it names the watches of a connection one after the other. They wake up in this order, and what
	// they write to the client leaves together.
	b := &Body{receiver: r, watch: uint64(c.group)<<32 | uint64(r.watches), client: of}
	b.changed.L = &b.mu
	r.bodies[b.watch] = b
	return b
}

// remove removes a watch.
func (r *Receiver) remove(b *Body) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.bodies[b.watch] != b {
		return
	}
	delete(r.bodies, b.watch)
	delete(r.owed, b.watch)
	c := r.connections[b.client]
	if c.watches--; c.watches == 0 {
		delete(r.connections, b.client)
	}
	if len(r.bodies) == 0 {
		r.idle()
	}
}

// CloseIfIdle ends the session if it has no watches. It reports whether the session has ended.
func (r *Receiver) CloseIfIdle() bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	if len(r.bodies) > 0 {
		return false
	}
	r.end()
	return true
}

// Close ends the session. Watches end when their clients have read what has arrived.
func (r *Receiver) Close() {
	r.mu.Lock()
	bodies := r.bodies
	r.end()
	r.mu.Unlock()
	for _, b := range bodies {
		b.end(io.EOF)
	}
}

func (r *Receiver) end() {
	r.bodies = nil
	select {
	case <-r.ended:
	default:
		close(r.ended)
	}
}

// Ended is closed when the session has ended.
func (r *Receiver) Ended() <-chan struct{} { return r.ended }

// errWindow means that the sender has sent more than the client has taken.
var errWindow = errors.New("the replica sends more than a watch may receive")

// Receive reads frames until the stream ends. Its error is io.EOF if the stream ends between two frames.
func (r *Receiver) Receive(stream io.Reader) (err error) {
	defer recovery.ToError("the frames of watches", &err)
	d := decoder{Receiver: r, stream: bufio.NewReaderSize(stream, 16<<10), ring: newRing(r.limits)}
	for {
		if err := d.frame(); err != nil {
			return err
		}
	}
}

// decoder reads frames.
type decoder struct {
	*Receiver
	stream *bufio.Reader
	ring   ring
}

func (d *decoder) frame() error {
	kind, err := d.stream.ReadByte()
	if err != nil {
		return err
	}
	switch kind {
	case frameChunk:
		err = d.chunk()
	case frameDeliver:
		err = d.deliver()
	case frameEnd:
		var watch uint64
		if watch, err = binary.ReadUvarint(d.stream); err == nil {
			d.finish(watch)
		}
	default:
		err = fmt.Errorf("%d is no kind of frame", kind)
	}
	if errors.Is(err, io.EOF) {
		err = io.ErrUnexpectedEOF
	}
	return err
}

func (d *decoder) chunk() error {
	length, err := binary.ReadUvarint(d.stream)
	if err != nil {
		return err
	}
	if length == 0 || length > uint64(d.limits.chunk) {
		return fmt.Errorf("a chunk has %d bytes", length)
	}
	c := chunk{bytes: make([]byte, length)}
	if _, err := io.ReadFull(d.stream, c.bytes); err != nil {
		return err
	}
	d.ring.add(c, nil)
	d.carried(len(c.bytes))
	return nil
}

func (d *decoder) deliver() error {
	ago, err := binary.ReadUvarint(d.stream)
	if err != nil {
		return err
	}
	c := d.ring.at(d.ring.next - 1 - ago) // a number below zero wraps, and at returns nil
	if c == nil || ago >= d.ring.next {
		return fmt.Errorf("the chunk before %d others is not known", ago)
	}
	count, err := binary.ReadUvarint(d.stream)
	if err != nil {
		return err
	}
	watch, delivered := uint64(0), 0
	for range count {
		delta, err := binary.ReadUvarint(d.stream)
		if err != nil {
			return err
		}
		watch += delta
		d.mu.Lock()
		b := d.bodies[watch]
		d.mu.Unlock()
		if b == nil {
			continue // it has left
		}
		n, fits := b.receive(c.bytes)
		if !fits {
			return errWindow
		}
		delivered += n
	}
	d.delivered(delivered)
	return nil
}

// finish ends a watch after what it has received.
func (r *Receiver) finish(watch uint64) {
	r.mu.Lock()
	b := r.bodies[watch]
	r.mu.Unlock()
	if b != nil {
		b.end(io.EOF)
	}
}

// credit lets the sender send so many more bytes to a watch.
func (r *Receiver) credit(b *Body, bytes int) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.bodies[b.watch] == b {
		r.owed[b.watch] += bytes
		signal(r.earned)
	}
}

// SendCredits writes credits until the session ends or write fails.
func (r *Receiver) SendCredits(stream io.Writer) error {
	for {
		select {
		case <-r.earned:
		case <-r.ended:
			return nil
		}
		r.mu.Lock()
		owed := maps.Clone(r.owed)
		clear(r.owed)
		r.mu.Unlock()
		var b []byte
		for watch, bytes := range owed {
			b = binary.AppendUvarint(b, watch)
			b = binary.AppendUvarint(b, uint64(bytes))
		}
		if len(b) == 0 {
			continue
		}
		if _, err := stream.Write(b); err != nil {
			return err
		}
	}
}
