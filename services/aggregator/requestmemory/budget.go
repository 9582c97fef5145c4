// Copyright The Tripod Authors.
// SPDX-License-Identifier: Apache-2.0

// Package requestmemory divides the memory of requests in flight among users, so that no user takes all of it.
//
// A request takes a fixed cost at the start, and room for the part of its body and answer that the aggregator may buffer. The package does
// not count buffered bytes. Flow control limits them (upstream/connections, Window), and a request takes that limit.
//
// Until the aggregator knows the sender, the request counts for the owner of its connection (package clients).
//
// The rule is the dynamic threshold of network switches (Choudhury and Hahne, 1998): a user may have as much as is still free. One greedy
// user gets a half, two get a third each. Something always remains free for the next user. The rule needs neither the number of users nor
// fixed shares.
//
// While a user has too much, the aggregator answers more requests of that user with 429, and ends watches whose client does not read.
package requestmemory

import (
	"context"
	"math"
	"net/http"
	"runtime/debug"
	"strings"
	"sync"
	"time"

	"k8s.io/apiserver/pkg/authentication/serviceaccount"
	"k8s.io/apiserver/pkg/authentication/user"
)

const (
	// requestCost is what a request takes without its body and answer: goroutines, their stacks, headers, and the state of its streams. 1,400
	// idle watches took 63 KiB each, garbage included (test/disturb/attacks).
	requestCost = 64 << 10
	// cancelledCost is what a request takes in addition if its client cancels it within cancelledFor, and for how long it counts at least. The
	// backend still works on it, in vain. Each may keep a processor busy for 10 ms, such as with an object of 1 MiB. So a user can have
	// only a few of these at a time.
	cancelledCost = 4 << 20
	cancelledFor  = time.Second
	// unlimited is the limit if the process has no memory limit.
	unlimited = 2 << 30
)

// Budget is the memory for all requests in flight.
type Budget struct {
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

// New returns a budget of limit bytes. 0 means half of the process's memory.
func New(limit int64) *Budget {
	if limit == 0 {
		limit = PartOfProcess(2, unlimited)
	}
	registerMetrics()
	return &Budget{limit: limit, users: map[string]*holder{}}
}

// Arrive reserves memory for a new request with an unknown sender. It returns nil if the owner of the connection has too much.
func (b *Budget) Arrive(owner string, header http.Header) *Reservation {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.begin(owner, requestCost+SizeOf(header))
}

// PartOfProcess returns the memory limit of the process, divided by divisor. Without such a limit, it returns otherwise.
func PartOfProcess(divisor, otherwise int64) int64 {
	if process := debug.SetMemoryLimit(-1); process < math.MaxInt64 { // set by GOMEMLIMIT or by package gcpace
		return process / divisor
	}
	return otherwise
}

// Begin moves the reservation of a request from the owner of its connection to its sender, and takes room for its body. Without an earlier
// Arrive, the request gets a new reservation. Begin returns nil if the sender has too much. If a handler has called Begin before, the
// reservation stays as it is.
func (b *Budget) Begin(req *http.Request, sender user.Info) *Reservation {
	name, body := NameOf(sender), atMost(req.ContentLength, maxBody)
	b.mu.Lock()
	defer b.mu.Unlock()
	arrived, _ := req.Context().Value(arrivedKey{}).(*Reservation)
	if arrived == nil || arrived.holds == 0 {
		s := b.begin(name, requestCost+SizeOf(req.Header)+body)
		if s != nil {
			s.begun = time.Now()
		}
		return s
	}
	if arrived.begun.IsZero() {
		if !arrived.move(name, body) {
			refusals.WithLabelValues(refusedRequest).Inc()
			return nil
		}
		arrived.begun = time.Now()
	}
	arrived.holds++
	return arrived
}

func (b *Budget) begin(name string, bytes int64) *Reservation {
	s := &Reservation{budget: b, user: b.enter(name), holds: 1}
	if !s.take(bytes) {
		s.end()
		refusals.WithLabelValues(refusedRequest).Inc()
		return nil
	}
	return s
}

// enter counts one more request of a user.
func (b *Budget) enter(name string) *holder {
	u := b.users[name]
	if u == nil {
		u = &holder{name: name}
		b.users[name] = u
	}
	u.requests++
	return u
}

func (b *Budget) leave(u *holder) {
	if u.requests--; u.requests == 0 {
		delete(b.users, u.name)
	}
}

type arrivedKey struct{}

// In returns a context that carries the reservation to Begin.
func (s *Reservation) In(ctx context.Context) context.Context {
	return context.WithValue(ctx, arrivedKey{}, s)
}

// headerCost is what HTTP/2 adds to the bytes of each header (RFC 9113, section 6.5.2).
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

// maxBody is how much of a request body the aggregator may buffer: the window of k8s.io/apiserver's HTTP/2 server, and the bytes kept for a
// retry.
const maxBody = (256 + 64) << 10

// atMost returns length, but no more than limit. A length of -1 is unknown, and gives limit.
func atMost(length, limit int64) int64 {
	if length < 0 {
		return limit
	}
	return min(length, limit)
}

// NameOf returns the user that a sender counts as. All ServiceAccounts of a namespace count as one: a user who may create one may create
// thousands.
func NameOf(sender user.Info) string {
	name := sender.GetName()
	if strings.HasPrefix(name, serviceaccount.ServiceAccountUsernamePrefix) {
		if namespace, _, err := serviceaccount.SplitUsername(name); err == nil {
			return serviceaccount.ServiceAccountUsernamePrefix + namespace
		}
	}
	return name
}

// Reservation is the memory that one request takes.
type Reservation struct {
	budget *Budget
	user   *holder
	bytes  int64
	// begun is when the reservation became its sender's.
	begun time.Time
	// cancelled is set once the reservation has taken cancelledCost.
	cancelled bool
	// holds counts the calls of End that are still to come.
	holds int
}

// Take takes more bytes. It returns false, and takes nothing, if the user has too much.
func (s *Reservation) Take(bytes int64) bool {
	s.budget.mu.Lock()
	defer s.budget.mu.Unlock()
	return s.take(bytes)
}

func (s *Reservation) take(bytes int64) bool {
	if s.user.taken+bytes > s.budget.limit-s.budget.taken {
		return false
	}
	s.add(bytes)
	return true
}

// move gives the reservation to another user and takes more bytes. If that user has too much, move changes nothing and returns false.
func (s *Reservation) move(name string, more int64) bool {
	if s.user.name == name {
		return s.take(more)
	}
	bytes, before := s.bytes, s.user
	s.add(-bytes)
	s.user = s.budget.enter(name)
	if !s.take(bytes + more) {
		s.budget.leave(s.user)
		s.user = before
		s.add(bytes)
		return false
	}
	s.budget.leave(before)
	return true
}

// TakeAnswer takes room for an answer. It returns false if the user has too much.
func (s *Reservation) TakeAnswer(bytes int64) bool {
	if s.Take(bytes) {
		return true
	}
	refusals.WithLabelValues(refusedAnswer).Inc()
	return false
}

// Add takes more bytes, or gives some back, without asking how much the user has.
func (s *Reservation) Add(bytes int64) {
	s.budget.mu.Lock()
	defer s.budget.mu.Unlock()
	s.add(bytes)
}

// Cancelled takes cancelledCost, because the client cancelled the request before the answer. If that is too much, Cancelled takes nothing:
// the user then gets no other requests either.
func (s *Reservation) Cancelled() {
	s.budget.mu.Lock()
	defer s.budget.mu.Unlock()
	if s.holds > 0 && !s.cancelled {
		s.cancelled = s.take(cancelledCost)
	}
}

func (s *Reservation) add(bytes int64) {
	s.bytes += bytes
	s.user.taken += bytes
	s.budget.taken += bytes
	takenBytes.Set(float64(s.budget.taken))
}

// End must be called once for each successful Arrive and Begin. The last call gives everything back.
func (s *Reservation) End() {
	s.budget.mu.Lock()
	defer s.budget.mu.Unlock()
	if s.holds--; s.holds == 0 {
		s.end()
	}
}

// EndCancelled is End for a request that the client has cancelled. A watch, say, may have been answered at once, and the backend is sending
// the first events.
func (s *Reservation) EndCancelled() {
	rest := cancelledFor - time.Since(s.begun)
	if rest <= 0 {
		s.End()
		return
	}
	s.Cancelled()
	time.AfterFunc(rest, s.End)
}

func (s *Reservation) end() {
	s.add(-s.bytes)
	s.budget.leave(s.user)
}
