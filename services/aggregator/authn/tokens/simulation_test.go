// Copyright The Tripod Authors.
// SPDX-License-Identifier: Apache-2.0

package tokens

import (
	"context"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"slices"
	"strconv"
	"sync"
	"time"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/types/known/durationpb"

	"github.com/tripod-k8s/tripod/base/hop/follow"
	identityv1 "github.com/tripod-k8s/tripod/proto/identity/v1"
)

// The simulation is of a cluster in which things come, change and go, of replicas of core that observe it late, each at
// its own time, that stop and start, and of a network between them and the client that is slow, stalls and breaks.

const (
	simThings = 6
	// silentFresh is how long an answer may be used that depends on something that core never observes, such as what a
	// webhook decides.
	silentFresh = 2 * time.Second
	// endingEvery is how often a token is made that ends by itself, and endingAfter how long it is good.
	endingEvery = 4 * time.Second
	endingAfter = 6 * time.Second
)

// simToken has what a token depends on.
type simToken struct {
	name string
	// things that must be there. Their versions are in the answer.
	things []int
	// silent is whether the answer also depends on the version of the silent thing.
	silent bool
	// ends is zero when it does not end by itself.
	ends time.Time
}

// simState is what a replica, or the world, knows: versions of the things. One in three versions is that a thing is not
// there.
type simState [simThings]int

// user returns the name in a good answer in that state, and an empty one where the token is not good.
func (s simState) user(token simToken) string {
	name := token.name
	for _, thing := range token.things {
		if s[thing]%3 == 2 {
			return ""
		}
		name += "," + strconv.Itoa(s[thing])
	}
	return name
}

// since is something that holds from a moment to the next.
type since[T any] struct {
	at    time.Time
	value T
}

// during calls the function with all that held at a moment between from and to, until it returns true.
func during[T any](history []since[T], from, to time.Time, holds func(T) bool) bool {
	for i := len(history) - 1; i >= 0; i-- {
		if history[i].at.After(to) {
			continue
		}
		if holds(history[i].value) {
			return true
		}
		if !history[i].at.After(from) {
			return false
		}
	}
	return false
}

// simulation is all of it. One lock guards all of it.
type simulation struct {
	mu       sync.Mutex
	random   *rand.Rand
	began    time.Time
	truth    simState
	silent   []since[int]
	replicas []*simReplica
	tokens   []simToken
	// calm is whether nothing bad happens any more.
	calm bool
	// watched are the streams of which the client received the first message, in their order.
	watched []*simStream
	// asked counts questions, and late the answers that an invalidation overtook.
	asked, late int
	background  sync.WaitGroup
}

// simReplica is an address of core, and what runs there.
type simReplica struct {
	address string
	run     *simRun // nil when it is down
	// known is what the replica knows, or would if it ran. changes are on their way to it.
	known   simState
	changes chan simChange
	// unreachable is until when nothing gets through.
	unreachable time.Time
	runs        int
}

type simChange struct {
	due     time.Time
	thing   int
	version int
}

// simRun is a run of a replica.
type simRun struct {
	name     string
	replica  *simReplica
	sequence uint64
	history  []since[simState]
	unsent   []*identityv1.Invalidation
	streams  []*simStream
	ended    chan struct{}
}

// simStream is a stream of one run.
type simStream struct {
	run *simRun
	// sent is in the order in which it arrives.
	sent   []simMessage
	arrive chan struct{}
	// follows from the client's end: the messages with the time when it received them, and when it saw the end.
	received []since[simMessage]
	lost     time.Time
}

type simMessage struct {
	sent, due time.Time
	message   *identityv1.WatchResponse // nil is the end of the stream
}

func newSimulation(seed uint64, replicas int) *simulation {
	s := &simulation{random: rand.New(rand.NewPCG(seed, 0)), began: time.Now()}
	s.silent = []since[int]{{s.began, 0}}
	for i, things := range [][]int{{0}, {1}, {0, 1}, {2, 3}, {3, 4, 5}, {}, {5}, {4}} {
		s.tokens = append(s.tokens, simToken{name: fmt.Sprintf("t%d", i), things: things, silent: i == 5 || i == 6})
	}
	for i := range replicas {
		r := &simReplica{address: fmt.Sprintf("core-%d", i), changes: make(chan simChange, 10000)}
		s.replicas = append(s.replicas, r)
		s.startRun(r)
	}
	return s
}

// upTo returns a random duration, most often a small part of limit.
func (s *simulation) upTo(limit time.Duration) time.Duration {
	part := s.random.Float64()
	return time.Duration(part * part * part * float64(limit))
}

func (s *simulation) chance(p float64) bool {
	return !s.calm && s.random.Float64() < p
}

// token returns a token that a client may have.
func (s *simulation) token() simToken {
	if s.random.IntN(5) > 0 {
		return s.tokens[s.random.IntN(len(s.tokens))]
	}
	made := int(time.Since(s.began)/endingEvery) - s.random.IntN(3)
	return simToken{name: fmt.Sprintf("ending%d", made), things: []int{2}, ends: s.began.Add(time.Duration(made)*endingEvery + endingAfter)}
}

func (s *simulation) startRun(r *simReplica) {
	r.runs++
	r.run = &simRun{name: fmt.Sprintf("%s.%d", r.address, r.runs), replica: r, ended: make(chan struct{})}
	if s.random.IntN(2) == 0 {
		r.known = s.truth
	}
	r.run.history = []since[simState]{{time.Now(), r.known}}
}

// stopRun ends a run. Its streams may end a little later, or never.
func (s *simulation) stopRun(r *simReplica) {
	run := r.run
	r.run = nil
	close(run.ended)
	if s.chance(0.2) {
		return
	}
	for _, stream := range run.streams {
		s.send(stream, nil, 500*time.Millisecond)
	}
}

// send puts a message on its way.
func (s *simulation) send(stream *simStream, message *identityv1.WatchResponse, slowest time.Duration) {
	sent := time.Now()
	due := sent.Add(s.upTo(slowest))
	if until := stream.run.replica.unreachable; due.Before(until) {
		due = until
	}
	if n := len(stream.sent); n > 0 && due.Before(stream.sent[n-1].due) {
		due = stream.sent[n-1].due
	}
	stream.sent = append(stream.sent, simMessage{sent, due, message})
	select {
	case stream.arrive <- struct{}{}:
	default:
	}
}

// flush sends what is new, or a sign of life.
func (s *simulation) flush(run *simRun) {
	message := &identityv1.WatchResponse{Run: run.name, Sequence: run.sequence, Invalidations: run.unsent}
	run.unsent = nil
	for _, stream := range run.streams {
		s.send(stream, message, 300*time.Millisecond)
	}
}

// apply lets a replica know of a change.
func (s *simulation) apply(r *simReplica, change simChange) {
	if change.version <= r.known[change.thing] {
		return // a list had that before
	}
	r.known[change.thing] = change.version
	run := r.run
	if run == nil {
		return
	}
	run.history = append(run.history, since[simState]{time.Now(), r.known})
	run.sequence++
	run.unsent = append(run.unsent, &identityv1.Invalidation{Sequence: run.sequence, Dependency: thingDependency(change.thing)})
	if s.random.IntN(2) == 0 {
		s.flush(run)
	}
}

func thingDependency(thing int) *identityv1.Dependency {
	return &identityv1.Dependency{Kind: identityv1.Dependency_KIND_SECRET, Id: strconv.Itoa(thing)}
}

// change changes something in the world. Every replica will know of it at its own time.
func (s *simulation) change() {
	if s.random.IntN(5) == 0 {
		s.silent = append(s.silent, since[int]{time.Now(), len(s.silent)})
		return
	}
	thing := s.random.IntN(simThings)
	s.truth[thing]++
	for _, r := range s.replicas {
		r.changes <- simChange{due: time.Now().Add(s.upTo(2 * time.Second)), thing: thing, version: s.truth[thing]}
	}
}

// disturb does something bad.
func (s *simulation) disturb() {
	r := s.replicas[s.random.IntN(len(s.replicas))]
	switch {
	case r.run == nil:
		s.startRun(r)
	case s.random.IntN(3) == 0:
		r.unreachable = time.Now().Add(s.upTo(8 * time.Second))
	default:
		s.stopRun(r)
		if s.random.IntN(2) == 0 {
			s.startRun(r)
		}
	}
}

// every does something again and again until the context ends.
func (s *simulation) every(ctx context.Context, pause func() time.Duration, do func()) {
	s.background.Go(func() {
		for ctx.Err() == nil {
			s.mu.Lock()
			next := pause()
			s.mu.Unlock()
			sleep(ctx, next)
			s.mu.Lock()
			do()
			s.mu.Unlock()
		}
	})
}

func sleep(ctx context.Context, d time.Duration) {
	select {
	case <-ctx.Done():
	case <-time.After(d):
	}
}

// run lets time go by until the context ends.
func (s *simulation) start(ctx context.Context) {
	s.every(ctx, func() time.Duration { return s.upTo(time.Second) }, func() {
		if !s.calm {
			s.change()
		}
	})
	s.every(ctx, func() time.Duration { return s.upTo(10 * time.Second) }, func() {
		if !s.calm {
			s.disturb()
		}
	})
	for _, r := range s.replicas {
		s.every(ctx, func() time.Duration { return time.Second }, func() {
			if r.run != nil {
				s.flush(r.run)
			}
		})
		s.background.Go(func() {
			for {
				select {
				case change := <-r.changes:
					// One after the other: of two at one time the order would be unknown.
					sleep(ctx, max(time.Until(change.due), 1))
					s.mu.Lock()
					s.apply(r, change)
					s.mu.Unlock()
				case <-ctx.Done():
					return
				}
			}
		})
	}
}

// calmDown ends all that is bad.
func (s *simulation) calmDown() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.calm = true
	for _, r := range s.replicas {
		r.unreachable = time.Time{}
		if r.run == nil {
			s.startRun(r)
		}
	}
}

var (
	errRefused = status.Error(codes.Unavailable, "connection refused")
	errBroken  = status.Error(codes.Unavailable, "connection broken")
)

// dial returns a connection to an address.
func (s *simulation) dial(address string) (follow.Conn, error) {
	i := slices.IndexFunc(s.replicas, func(r *simReplica) bool { return r.address == address })
	if i < 0 {
		return nil, errors.New("no such address")
	}
	conn := &simConn{simulation: s, replica: s.replicas[i], closed: make(chan struct{})}
	return &testConn{watch: conn.watch, authenticate: conn.authenticate, close: sync.OnceFunc(func() { close(conn.closed) })}, nil
}

// simConn is a connection. It is made by its first call, and again where it leads to another run by then.
type simConn struct {
	*simulation
	replica *simReplica
	closed  chan struct{}
}

// travel takes as long as a message takes one way.
func (c *simConn) travel(ctx context.Context, slowest time.Duration) error {
	c.mu.Lock()
	pause := max(c.upTo(slowest), time.Until(c.replica.unreachable))
	broken := c.chance(0.01)
	c.mu.Unlock()
	select {
	case <-time.After(pause):
	case <-ctx.Done():
		return status.FromContextError(ctx.Err()).Err()
	case <-c.closed:
		return status.Error(codes.Canceled, "the connection is closed")
	}
	if broken {
		return errBroken
	}
	return nil
}

func (c *simConn) authenticate(ctx context.Context, request *identityv1.AuthenticateRequest) (*identityv1.AuthenticateResponse, error) {
	if err := c.travel(ctx, 200*time.Millisecond); err != nil {
		return nil, err
	}
	c.mu.Lock()
	c.asked++
	token := c.parse(request.GetToken())
	run := c.replica.run
	if run == nil {
		c.mu.Unlock()
		return nil, errRefused
	}
	sequence, look := run.sequence, c.upTo(50*time.Millisecond)
	c.mu.Unlock()
	time.Sleep(look)

	c.mu.Lock()
	if run != c.replica.run {
		c.mu.Unlock()
		return nil, errBroken
	}
	response := c.look(token)
	response.Run, response.Sequence = run.name, sequence
	if !token.ends.IsZero() {
		response.ValidFor = durationpb.New(time.Until(token.ends))
	}
	c.mu.Unlock()

	if err := c.travel(ctx, 500*time.Millisecond); err != nil {
		return nil, err
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if run.sequence > sequence {
		c.late++
	}
	return response, nil
}

// parse finds what a token depends on.
func (c *simConn) parse(name string) simToken {
	for _, token := range c.tokens {
		if token.name == name {
			return token
		}
	}
	var made int
	_, _ = fmt.Sscanf(name, "ending%d", &made)
	return simToken{name: name, things: []int{2}, ends: c.began.Add(time.Duration(made)*endingEvery + endingAfter)}
}

// look returns the answer of the replica about the token.
func (c *simConn) look(token simToken) *identityv1.AuthenticateResponse {
	response := &identityv1.AuthenticateResponse{FreshFor: durationpb.New(20 * time.Second)}
	name := c.replica.known.user(token)
	if name == "" || (!token.ends.IsZero() && !time.Now().Before(token.ends)) {
		return response
	}
	if token.silent {
		name += "/" + strconv.Itoa(len(c.silent)-1)
		response.FreshFor = durationpb.New(silentFresh)
	}
	if c.random.IntN(20) == 0 {
		response.FreshFor = nil
	}
	response.User = &identityv1.User{Name: name}
	for _, thing := range token.things {
		response.Dependencies = append(response.Dependencies, thingDependency(thing))
	}
	return response
}

func (c *simConn) watch(ctx context.Context) (receiver, error) {
	if err := c.travel(ctx, 200*time.Millisecond); err != nil {
		return nil, err
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	run := c.replica.run
	if run == nil {
		return nil, errRefused
	}
	c.flush(run)
	stream := &simStream{run: run, arrive: make(chan struct{}, 1)}
	run.streams = append(run.streams, stream)
	c.send(stream, &identityv1.WatchResponse{Run: run.name, Sequence: run.sequence}, 300*time.Millisecond)
	return func() (*identityv1.WatchResponse, error) { return c.receive(ctx, stream) }, nil
}

// receive returns the next message of a stream, and notes it.
func (c *simConn) receive(ctx context.Context, stream *simStream) (*identityv1.WatchResponse, error) {
	for {
		c.mu.Lock()
		next := len(stream.received)
		var due <-chan time.Time
		if next < len(stream.sent) {
			due = time.After(time.Until(stream.sent[next].due))
		}
		c.mu.Unlock()
		select {
		case <-due:
			c.mu.Lock()
			defer c.mu.Unlock()
			message := stream.sent[next]
			if message.message == nil {
				stream.lost = time.Now()
				return nil, io.EOF
			}
			if next == 0 {
				c.watched = append(c.watched, stream)
			}
			stream.received = append(stream.received, since[simMessage]{time.Now(), message})
			return message.message, nil
		case <-stream.arrive:
		case <-ctx.Done():
			c.mu.Lock()
			defer c.mu.Unlock()
			stream.lost = time.Now()
			return nil, status.FromContextError(ctx.Err()).Err()
		}
	}
}
