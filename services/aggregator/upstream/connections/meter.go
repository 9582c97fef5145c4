// Copyright The Tripod Authors.
// SPDX-License-Identifier: Apache-2.0

package connections

import (
	"errors"
	"sync"
	"time"

	"golang.org/x/net/http2"
)

// meter bounds the frames of a replica that are no part of an answer. x/net/http2 reads them as fast as they come, answers some, and logs
// those of unknown types. Content of an answer needs no bound: flow control lets a replica send only what a client reads.
//
// A connection has credit. Time and what the aggregator sends add to it.
type meter struct {
	mu       sync.Mutex
	received frames
	credit   int
	// filled is when time last added to the credit.
	filled time.Time
	// open are the streams whose answers are not complete, and what their headers may still cost. last is the last stream that was opened.
	open map[uint32]int
	last uint32
}

const (
	// frameCost is what a frame takes besides its bytes, and unknownCost what one takes that x/net/http2 logs.
	frameCost, unknownCost = 256, 64 << 10
	// maxCredit is the most that a connection has, and firstCredit what a new one has. The most is 0.1 s of a processor.
	maxCredit, firstCredit = 32 << 20, 1 << 20
	// creditPerSecond is enough for 1,000 small frames.
	creditPerSecond = 256 << 10
	// headerCredit is what the headers of an answer may cost, interim answers and trailers included.
	headerCredit = 2 * MaxHeader
	// requestCredit is for window updates at the end of a request, and the like. contentCredit is for those that a frame of content needs
	// at least. resetCredit is for what a replica had sent before it knew of a reset.
	requestCredit, contentCredit, resetCredit = 8 << 10, 4 << 10, Window + requestCredit
	// contentPerCredit is how many bytes of content have credit for one: Go servers send two updates for each 4 KiB that they read.
	contentPerCredit = 7
	// maxPadding is the most padding that a frame can have.
	maxPadding = 256
)

var errUnasked = errors.New("the replica sends too many frames that belong to no answer")

func newMeter() *meter {
	return &meter{credit: firstCredit, filled: time.Now(), open: map[uint32]int{}}
}

// send follows a frame to the replica.
func (m *meter) send(f frame) {
	m.mu.Lock()
	defer m.mu.Unlock()
	switch http2.FrameType(f.kind) {
	case http2.FrameHeaders:
		if f.stream > m.last { // and no trailers
			m.last = f.stream
			m.open[f.stream] = headerCredit
			m.add(requestCredit)
		}
	case http2.FrameData:
		m.add(contentCredit + f.length/contentPerCredit)
	case http2.FrameRSTStream:
		if _, open := m.open[f.stream]; open {
			delete(m.open, f.stream)
			m.add(resetCredit)
		}
	}
}

func (m *meter) add(credit int) { m.credit = min(m.credit+credit, maxCredit) }

// receive follows bytes from the replica. It returns false if they cost too much.
func (m *meter) receive(p []byte) bool {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.received.pass(p, func(f frame) { m.credit -= m.cost(f) })
	if m.credit < 0 {
		now := time.Now()
		m.add(int(min(now.Sub(m.filled).Seconds()*creditPerSecond, maxCredit)))
		m.filled = now
	}
	return m.credit >= 0
}

// cost returns what a frame from the replica costs.
func (m *meter) cost(f frame) int {
	left, open := m.open[f.stream]
	cost := frameCost + f.length
	switch kind := http2.FrameType(f.kind); kind {
	case http2.FrameData:
		switch padded := f.flags&byte(http2.FlagDataPadded) != 0; {
		case !open || f.length == 0:
		case padded: // x/net/http2 opens the window again at once for padding
			cost = frameCost + min(f.length, maxPadding)
		default:
			cost = 0
		}
	case http2.FrameHeaders, http2.FrameContinuation:
		if open && left >= cost {
			m.open[f.stream] = left - cost
			cost = 0
		}
	case http2.FrameRSTStream:
		delete(m.open, f.stream)
	case http2.FrameSettings, http2.FramePing, http2.FrameGoAway, http2.FrameWindowUpdate, http2.FramePushPromise:
	default:
		cost += unknownCost
	}
	if ends := f.flags&byte(http2.FlagDataEndStream) != 0; ends && f.kind <= byte(http2.FrameHeaders) { // they have the same flag
		delete(m.open, f.stream)
	}
	return cost
}
