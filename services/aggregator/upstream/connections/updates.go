// Copyright The Tripod Authors.
// SPDX-License-Identifier: Apache-2.0

package connections

import (
	"encoding/binary"
	"slices"
	"sync"
	"time"
)

// delayed is the sending half of an HTTP/2 connection, that holds WINDOW_UPDATE frames back until there is something else to send, or some time
// has passed. x/net/http2 sends one for every 4 KiB that are read, by itself: for a watch that is one for three or four
// events, each of which is a TLS record and a system call here and there. The replica does not notice, because no window loses
// more than a half.
type delayed struct {
	*counted

	mu sync.Mutex
	// frames are where the last write ended.
	frames frames
	held   []byte
	// grants is how many bytes the held frames let the replica send.
	grants int
	timer  *time.Timer
	err    error
}

const (
	// updateDelay is how long a WINDOW_UPDATE may wait.
	updateDelay = 5 * time.Millisecond
	// farewell is how long it may take to tell the replica that the connection is closed.
	farewell = 250 * time.Millisecond
	// maxHeldUpdates is how many bytes of such frames wait at most: those of 64 frames.
	maxHeldUpdates = 64 * updateLength
	// maxHeldGrants is how many bytes they may let the replica send. It can send as many without them.
	maxHeldGrants = Window / 2
)

func newDelayed(conn *counted) *delayed {
	d := &delayed{counted: conn, frames: frames{rest: len(preface)}}
	d.timer = time.AfterFunc(time.Hour, d.flush)
	d.timer.Stop()
	return d
}

// Write implements net.Conn.
func (d *delayed) Write(p []byte) (int, error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.err != nil {
		return 0, d.err
	}
	if d.frames.pass(p) && d.mayHold(p) {
		if len(d.held) == 0 {
			d.timer.Reset(updateDelay)
		}
		d.held = append(d.held, p...)
		return len(p), nil
	}
	held := len(d.held)
	if held == 0 {
		d.grants = 0
		return d.send(p)
	}
	d.timer.Stop()
	d.held = append(d.held, p...)
	d.grants = 0
	n, err := d.send(d.held)
	if cap(d.held) > 2*maxHeldUpdates {
		d.held = nil
	}
	d.held = d.held[:0]
	return max(0, n-held), err
}

// mayHold decides whether more WINDOW_UPDATE frames wait.
func (d *delayed) mayHold(updates []byte) bool {
	for frame := range slices.Chunk(updates, updateLength) {
		if binary.BigEndian.Uint32(frame[headLength-4:]) != 0 { // those of the connection are the sum of the others
			d.grants += int(binary.BigEndian.Uint32(frame[headLength:]))
		}
	}
	return d.grants < maxHeldGrants && len(d.held)+len(updates) <= maxHeldUpdates
}

func (d *delayed) send(p []byte) (int, error) {
	var n int
	n, d.err = d.counted.Write(p)
	return n, d.err
}

func (d *delayed) flush() {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.err == nil && len(d.held) > 0 {
		_, _ = d.send(d.held) // the next write returns the error
		d.held, d.grants = d.held[:0], 0
	}
}

// Close implements net.Conn. A replica that reads nothing cannot make it wait for long, as x/net/http2 sees to where it knows that it has a
// *tls.Conn.
func (d *delayed) Close() error {
	d.timer.Stop()
	forced := time.AfterFunc(farewell, func() { _ = d.NetConn().Close() })
	defer forced.Stop()
	return d.counted.Close()
}

// frames follows the frames of an HTTP/2 connection (RFC 9113, section 4.1).
type frames struct {
	// rest is how much of a frame, or of the connection's preface, is still to come.
	rest int
	// head is the begin of the head of a frame.
	head [headLength]byte
	have int
}

const (
	preface      = "PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n"
	headLength   = 9
	updateLength = headLength + 4
	windowUpdate = 0x8
)

// pass takes note of what is sent, and reports whether that is WINDOW_UPDATE frames, all of them whole.
func (f *frames) pass(p []byte) (updates bool) {
	updates = f.rest == 0 && f.have == 0 && len(p) > 0
	for len(p) > 0 {
		if f.rest > 0 {
			n := min(f.rest, len(p))
			f.rest -= n
			p = p[n:]
			continue
		}
		n := copy(f.head[f.have:], p)
		f.have += n
		p = p[n:]
		if f.have == headLength {
			f.have = 0
			f.rest = int(binary.BigEndian.Uint32(f.head[:4]) >> 8) // three bytes of length, one of type
			updates = updates && f.head[3] == windowUpdate
		}
	}
	return updates && f.rest == 0 && f.have == 0
}
