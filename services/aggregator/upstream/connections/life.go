// Copyright The Tripod Authors.
// SPDX-License-Identifier: Apache-2.0

package connections

import (
	"context"
	"slices"
	"time"
)

// A replica that answers late may be busy, frozen or lost. Time alone does not show which. This file has the evidence: whether bytes arrive
// from the replica, and what the kernel says about a connection.

const (
	// pingAfter is the time without traffic after which a connection sends a ping, so that the kernel has something to be acknowledged.
	pingAfter = 2 * time.Second
	// pingTimeout is how long the answer may take before the kernel is asked whether the connection is lost.
	pingTimeout = 2 * time.Second
	// aloneTimeout is how long a connection may be silent while others to the same replica are not, or if the kernel says nothing about it.
	aloneTimeout = 30 * time.Second

	// A connection is lost if the kernel has sent the same data so often again, and nothing was acknowledged for so long. The kernel of the
	// other end acknowledges data, however busy or frozen the process is. With the pauses of Linux, that is after 3 to 6 s.
	lostAttempts = 4
	lostAfter    = 3 * time.Second
)

// kernelState is what the kernel knows about a connection.
type kernelState struct {
	// silence is how long ago data arrived, whether or not this process has read them.
	silence time.Duration
	// lost is true if the other end does not acknowledge data.
	lost bool
}

// Received returns a number that grows whenever bytes from the replica were read.
func (p *Pool) Received() uint64 { return p.received.Load() }

// ReceivedSince reports whether the kernel got data from the replica after that time, on a connection from before. This process may be too
// busy to read them.
func (p *Pool) ReceivedSince(since time.Time) bool {
	return slices.ContainsFunc(p.allSockets(), func(s *socket) bool {
		state, ok := askKernel(s.Conn)
		return ok && s.made.Before(since) && state.silence < time.Since(since)
	})
}

// BreakLost closes the connections that are lost.
func (p *Pool) BreakLost() {
	for _, s := range p.allSockets() {
		if state, ok := askKernel(s.Conn); ok && state.lost {
			s.breakOff()
		}
	}
}

func (p *Pool) allSockets() []*socket {
	p.mu.Lock()
	defer p.mu.Unlock()
	sockets := make([]*socket, 0, len(p.sockets))
	for s := range p.sockets {
		sockets = append(sockets, s)
	}
	return sockets
}

// silence is how long a multiplexed connection has been silent.
type silence struct {
	// reads is the number of reads of the connection, and received that of the pool, when the silence began.
	reads, received uint64
	// lasted is how long it is, and checked when that was last counted.
	lasted  time.Duration
	checked time.Time
	pinged  bool
}

// maxCount is how much of the time since the last check counts. If it was longer, this process stood still, and may have bytes to read.
const maxCount = time.Second

// check pings a silent connection, and closes it if it is lost. It is called twice a second. net/http2 would close a connection that does
// not answer a ping in time.
func (c *http2Conn) check(received uint64) {
	now, reads := time.Now(), c.socket.reads.Load()
	if reads != c.silence.reads || c.silence.checked.IsZero() {
		c.silence = silence{reads: reads, received: received, checked: now}
		return
	}
	c.silence.lasted += min(now.Sub(c.silence.checked), maxCount)
	c.silence.checked = now
	switch silent := c.silence.lasted; {
	case silent < pingAfter:
	case !c.silence.pinged:
		c.silence.pinged = true
		go func() {
			ctx, cancel := context.WithTimeout(context.Background(), aloneTimeout)
			defer cancel()
			_ = c.Ping(ctx) // an answer is read like anything else
		}()
	case silent >= pingAfter+pingTimeout:
		state, known := askKernel(c.socket.Conn)
		if state.lost || silent >= aloneTimeout && (!known || received != c.silence.received) {
			c.socket.breakOff()
		}
	}
}
