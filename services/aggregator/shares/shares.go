// Copyright The Tripod Authors.
// SPDX-License-Identifier: Apache-2.0

// Package shares divides the memory that requests in flight take among users, so that nobody takes all of it.
//
// A request takes what it costs at the start, and what the aggregator has received of its body and answer but not passed on. Nobody counts
// these bytes: flow control bounds them (upstream/connections, Window), and the bound is what a request takes.
//
// Until its sender is known, a request counts as one of whoever has its connection (package clients).
//
// The rule is that of dynamic thresholds in switches (Choudhury and Hahne, 1998): a user may have as much as is still free. So one greedy
// user gets a half, two get a third each, and something is free for whoever comes next. It needs no number of users and no share in advance.
//
// While a user has too much, further requests of that user get 429. A watch whose client does not read ends.
package shares

import (
	"context"
	"math"
	"net/http"
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
	// takenBackCost is what a request takes in addition when its client takes it back before there is an answer. The backend works for nobody
	// then, so a user may have few of these.
	takenBackCost = 1 << 20
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
		limit = PartOfProcess(2, unlimited)
	}
	registerMetrics()
	return &Memory{limit: limit, users: map[string]*holder{}}
}

// Arrive takes the share of a new request whose sender is not known yet. It returns nil if the owner of its connection has too much.
func (m *Memory) Arrive(owner string, header http.Header) *Share {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.begin(owner, requestCost+SizeOf(header))
}

// PartOfProcess returns what the process may have, divided by a number, or another limit where the memory of the process has none.
func PartOfProcess(divisor, otherwise int64) int64 {
	if process := debug.SetMemoryLimit(-1); process < math.MaxInt64 { // by GOMEMLIMIT or by package gcpace
		return process / divisor
	}
	return otherwise
}

// Begin makes the share of a request that has arrived its sender's, and takes what the aggregator may have of its body. A request that did
// not arrive gets a new share. Begin returns nil if the sender has too much.
func (m *Memory) Begin(req *http.Request, sender user.Info) *Share {
	name, body := NameOf(sender), atMost(req.ContentLength, maxBody)
	m.mu.Lock()
	defer m.mu.Unlock()
	arrived, _ := req.Context().Value(arrivedKey{}).(*Share)
	if arrived == nil || arrived.holds == 0 {
		return m.begin(name, requestCost+SizeOf(req.Header)+body)
	}
	if arrived.move(name, body) {
		arrived.holds++
		return arrived
	}
	refusals.WithLabelValues(refusedRequest).Inc()
	return nil
}

func (m *Memory) begin(name string, bytes int64) *Share {
	s := &Share{memory: m, user: m.enter(name), holds: 1}
	if !s.take(bytes) {
		s.end()
		refusals.WithLabelValues(refusedRequest).Inc()
		return nil
	}
	return s
}

// enter counts a request of a user.
func (m *Memory) enter(name string) *holder {
	u := m.users[name]
	if u == nil {
		u = &holder{name: name}
		m.users[name] = u
	}
	u.requests++
	return u
}

func (m *Memory) leave(u *holder) {
	if u.requests--; u.requests == 0 {
		delete(m.users, u.name)
	}
}

type arrivedKey struct{}

// In returns a context with the share, for Begin.
func (s *Share) In(ctx context.Context) context.Context {
	return context.WithValue(ctx, arrivedKey{}, s)
}

// headerCost is what HTTP/2 counts for each header besides its bytes (RFC 9113, section 6.5.2).
const headerCost = 32

// SizeOf returns the size of headers as HTTP/2 counts it.
func SizeOf(header http.Header) (size int64) {
	for name, values := range header {
		for _, value := range values {
			size += int64(len(name) + len(value) + headerCost)
		}
	}
	return size
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

// NameOf returns whose share a sender uses. Whoever may create one ServiceAccount in a namespace may create thousands, so these share.
func NameOf(sender user.Info) string {
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
	// holds counts the handlers that have yet to call End.
	holds int
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

// move makes the share another user's, and takes more. If that user has too much, nothing changes.
func (s *Share) move(name string, more int64) bool {
	if s.user.name == name {
		return s.take(more)
	}
	bytes, before := s.bytes, s.user
	s.add(-bytes)
	s.user = s.memory.enter(name)
	if !s.take(bytes + more) {
		s.memory.leave(s.user)
		s.user = before
		s.add(bytes)
		return false
	}
	s.memory.leave(before)
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

// TakeBack is called when the client has taken the request back, and there is no answer yet. If that is too much, the user has no other
// requests meanwhile, and nothing more is taken from others.
func (s *Share) TakeBack() {
	s.memory.mu.Lock()
	defer s.memory.mu.Unlock()
	if s.holds > 0 {
		s.take(takenBackCost)
	}
}

func (s *Share) add(bytes int64) {
	s.bytes += bytes
	s.user.taken += bytes
	s.memory.taken += bytes
	takenBytes.Set(float64(s.memory.taken))
}

// End is called once after Arrive and once after Begin. The last one gives everything back.
func (s *Share) End() {
	s.memory.mu.Lock()
	defer s.memory.mu.Unlock()
	if s.holds--; s.holds == 0 {
		s.end()
	}
}

func (s *Share) end() {
	s.add(-s.bytes)
	s.memory.leave(s.user)
}
