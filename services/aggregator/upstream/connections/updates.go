// Copyright The Tripod Authors.
// SPDX-License-Identifier: Apache-2.0

package connections

import (
	"encoding/binary"
	"slices"
	"sync"
	"time"
)

// delayed is the sending half of an HTTP/2 connection. It holds WINDOW_UPDATE frames back until something else is sent, or updateDelay has
// passed. By itself, x/net/http2 sends one for every 4 KiB that are read. For a watch that is one for three or four events, and each is a
// TLS record, a write here and a read there. The replica does not notice the delay, because no window loses more than a half.
type delayed struct {
	*counted
	meter *meter

	mu sync.Mutex
	// frames knows where in a frame the last write ended.
	frames frames
	held   []byte
	// grants is the number of bytes for which the held frames open the window.
	grants int
	timer  *time.Timer
	err    error
}

const (
	// updateDelay is how long a WINDOW_UPDATE may be held.
	updateDelay = 5 * time.Millisecond
	// farewell is how long the notice of the end of the connection to the replica may take.
	farewell = 250 * time.Millisecond
	// maxHeldUpdates limits the size of held frames. It is the size of 64 frames.
	maxHeldUpdates = 64 * updateLength
	// maxHeldGrants limits the bytes for which held frames would open the window. The replica can send as many without them.
	maxHeldGrants = Window / 2
)

func newDelayed(conn *counted) *delayed {
	d := &delayed{counted: conn, meter: newMeter(), frames: frames{rest: len(preface)}}
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
	if d.frames.pass(p, d.meter.send) && d.mayHold(p) {
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

// mayHold decides whether to hold more WINDOW_UPDATE frames.
func (d *delayed) mayHold(updates []byte) bool {
	for frame := range slices.Chunk(updates, updateLength) {
		if binary.BigEndian.Uint32(frame[headLength-4:]) != 0 { // the grants of the connection are the sum of those of streams
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

// Close implements net.Conn. A replica that reads nothing cannot block it for long. x/net/http2 ensures that only for a *tls.Conn.
func (d *delayed) Close() error {
	d.timer.Stop()
	forced := time.AfterFunc(farewell, func() { _ = d.NetConn().Close() })
	defer forced.Stop()
	return d.counted.Close()
}

// Read implements net.Conn. It fails once the replica has sent too much that belongs to no answer.
func (d *delayed) Read(p []byte) (int, error) {
	n, err := d.counted.Read(p)
	if !d.meter.receive(p[:n]) {
		return 0, errUnasked
	}
	return n, err
}

// frames follows the frame boundaries of an HTTP/2 connection (RFC 9113, section 4.1).
type frames struct {
	// rest is the number of bytes until the end of the current frame, or of the preface.
	rest int
	// head has the first bytes of a frame header.
	head [headLength]byte
	have int
}

// frame is the header of a frame.
type frame struct {
	length      int
	kind, flags byte
	stream      uint32
}

const (
	preface      = "PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n"
	headLength   = 9
	updateLength = headLength + 4
	windowUpdate = 0x8
)

// pass follows the bytes of a write or read, and calls each with the header of each frame. It reports whether they are whole WINDOW_UPDATE
// frames and nothing else.
func (f *frames) pass(p []byte, each func(frame)) (updates bool) {
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
			f.rest = int(binary.BigEndian.Uint32(f.head[:4]) >> 8) // three bytes of length, then one of type
			updates = updates && f.head[3] == windowUpdate
			each(frame{f.rest, f.head[3], f.head[4], binary.BigEndian.Uint32(f.head[5:]) &^ (1 << 31)})
		}
	}
	return updates && f.rest == 0 && f.have == 0
}
