// Copyright The Tripod Authors.
// SPDX-License-Identifier: Apache-2.0

// Package shares divides the memory that requests in flight take among users, so that nobody takes all of it.
//
// A request takes what it costs at the start, and what the aggregator has received of its body and answer but not passed on. Nobody counts
// these bytes: flow control bounds them (upstream/connections, Window), and the bound is what a request takes.
//
// The rule is that of dynamic thresholds in switches (Choudhury and Hahne, 1998): a user may have as much as is still free. So one greedy
// user gets a half, two get a third each, and something is free for whoever comes next. It needs no number of users and no share in advance.
//
// While a user has too much, further requests of that user get 429. A watch whose client does not read ends.
package shares

import (
	"math"
	"runtime/debug"
	"strings"
	"sync"

	"k8s.io/apiserver/pkg/authentication/serviceaccount"
	"k8s.io/apiserver/pkg/authentication/user"
)

const (
	// requestCost is what a request takes of the memory without body and answer: its goroutines, their stacks, headers, and the state of its
	// stream in both connections. 1,400 idle watches took 63 KiB each, garbage included (test/disturb/attacks).
	requestCost = 64 << 10
	// unlimited is what requests may take where the memory of the process has no limit.
	unlimited = 2 << 30
)

// Memory is what all requests in flight may take.
type Memory struct {
	limit int64

	mu    sync.Mutex
	taken int64
	users map[string]*holder
}

// holder is a user with requests in flight.
type holder struct {
	name     string
	taken    int64
	requests int
}

// New returns a memory of so many bytes. 0 is half of what the process may have.
func New(limit int64) *Memory {
	if limit == 0 {
		limit = unlimited
		if process := debug.SetMemoryLimit(-1); process < math.MaxInt64 { // by GOMEMLIMIT or by package gcpace
			limit = process / 2
		}
	}
	registerMetrics()
	return &Memory{limit: limit, users: map[string]*holder{}}
}

// Begin takes the share of a new request with a body of such a length, which is -1 where nobody knows. It returns nil if its user has too much.
func (m *Memory) Begin(sender user.Info, body int64) *Share {
	name := nameOf(sender)
	m.mu.Lock()
	defer m.mu.Unlock()
	u := m.users[name]
	if u == nil {
		u = &holder{name: name}
		m.users[name] = u
	}
	s := &Share{memory: m, user: u}
	u.requests++
	if bytes := requestCost + atMost(body, maxBody); !s.take(bytes) {
		s.end()
		refusals.WithLabelValues(refusedRequest).Inc()
		return nil
	}
	return s
}

// maxBody is how much of a request's body the aggregator may have: the window of k8s.io/apiserver's HTTP/2 server, and what is kept for a retry.
const maxBody = (256 + 64) << 10

// atMost returns a length, which is -1 where it is not known, or a limit.
func atMost(length, limit int64) int64 {
	if length < 0 {
		return limit
	}
	return min(length, limit)
}

// nameOf returns whose share a sender uses. Whoever may create one ServiceAccount in a namespace may create thousands, so these share.
func nameOf(sender user.Info) string {
	name := sender.GetName()
	if strings.HasPrefix(name, serviceaccount.ServiceAccountUsernamePrefix) {
		if namespace, _, err := serviceaccount.SplitUsername(name); err == nil {
			return serviceaccount.ServiceAccountUsernamePrefix + namespace
		}
	}
	return name
}

// Share is what a request takes.
type Share struct {
	memory *Memory
	user   *holder
	bytes  int64
}

// Take takes more, unless the user has too much.
func (s *Share) Take(bytes int64) bool {
	s.memory.mu.Lock()
	defer s.memory.mu.Unlock()
	return s.take(bytes)
}

func (s *Share) take(bytes int64) bool {
	if s.user.taken+bytes > s.memory.limit-s.memory.taken {
		return false
	}
	s.add(bytes)
	return true
}

// TakeAnswer takes what there is of an answer, unless the user has too much.
func (s *Share) TakeAnswer(bytes int64) bool {
	if s.Take(bytes) {
		return true
	}
	refusals.WithLabelValues(refusedAnswer).Inc()
	return false
}

// Add takes more, or less, whatever the user has.
func (s *Share) Add(bytes int64) {
	s.memory.mu.Lock()
	defer s.memory.mu.Unlock()
	s.add(bytes)
}

func (s *Share) add(bytes int64) {
	s.bytes += bytes
	s.user.taken += bytes
	s.memory.taken += bytes
	takenBytes.Set(float64(s.memory.taken))
}

// End gives everything back: the request is done.
func (s *Share) End() {
	s.memory.mu.Lock()
	defer s.memory.mu.Unlock()
	s.end()
}

func (s *Share) end() {
	s.add(-s.bytes)
	if s.user.requests--; s.user.requests == 0 {
		delete(s.memory.users, s.user.name)
	}
}
