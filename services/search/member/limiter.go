// Copyright The Tripod Authors.
// SPDX-License-Identifier: Apache-2.0

package member

import (
	"cmp"
	"context"
	"maps"
	"slices"
	"sync"
	"sync/atomic"
	"time"
	"weak"

	"golang.org/x/sync/semaphore"
	"golang.org/x/time/rate"

	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/tripod-k8s/tripod/base/tuning/procs"
	"github.com/tripod-k8s/tripod/services/search/parties"
)

// Objects that were read take memory: the text, its form for the store, and that of the database's driver.
const (
	memoryOfText = 3
	// smallObject is what a stream may read of an object without taking memory. Almost all objects are smaller.
	smallObject = 64 << 10
	// tinyObject is what a stream may read of an object without a slot. A decoder has up to twice as much.
	tinyObject = 8 << 10
	// slotsAtOnce are the objects of a member that are neither tiny nor large and have no memory in a batch yet, and allSlots those of all
	// members, with large ones that wait for a permit.
	slotsAtOnce, allSlots = 16, 160
	// listsAtOnce are the lists of a member, whose answers are compressed.
	listsAtOnce = 32
	// groupShare is the part of the lists and slots of a member that an API group may have: another API server may serve that.
	groupShare = 2
	// memoryShares are the parts of the memory for batches: at most one is for a single member.
	memoryShares = 4
	// partyShares is how many members of a party take all of its memory and transactions.
	partyShares = 2
	// rightsShare is the part of the memory of a member that it has besides for objects that decide what readers see.
	rightsShare = 4
	// writesAtOnce are the transactions of a member, so that one which floods search does not take all connections of the database.
	writesAtOnce = 4
	// burst is for how many seconds of changes a member may send at once, such as a first list.
	burst = 200
	// dialsPerSecond are the connections to a member in the long run. At once, there may be one for each resource, and spareDials.
	dialsPerSecond, spareDials = 5, 100
	// kindsPerHour are the resources that a member may have in the long run which it did not have before. At once, there may be twice as many
	// as are copied.
	kindsPerHour = 100
	// allowancesOfGone are the members of which the allowance is known after they are gone: those that have most of it are forgotten first.
	allowancesOfGone = 1000
	// changeSize is the size of objects from which on one counts as several changes, and changeRows is how many labels and owners count as
	// one. rowsOfRights are so many of objects that decide what readers see: a user who may write them in a namespace must not delay others.
	changeSize, changeRows, rowsOfRights = 8 << 10, 20, 200
)

// SlotsMemory is the most that objects take before they count for Limits.Memory, of all members: each has a buffer of twice its size, and
// is copied once.
const SlotsMemory = allSlots * 3 * smallObject

// Limiter bounds what all members of a process use: memory for what was read and is not written yet, slots, watches and processors.
type Limiter struct {
	Limits
	// memory is for batches. large is for objects that are not small and for documents: each takes as much as the largest of them may need.
	memory *semaphore.Weighted
	large  *slots
	// largeOfRights is for large objects that decide what readers see.
	largeOfRights *slots
	// slots are for objects that are not tiny, on their way into a batch.
	slots *slots
	// watches are for those of all members.
	watches *slots
	// decoders is for what reads objects and takes a processor. It leaves one processor to all else: readers would wait for each of many
	// members.
	decoders chan struct{}
	// slow is the one of large that all members have which have lost their pace.
	slow *slots
	// waitTimeout, listTime, writeTime and endTime are the constants, except in tests.
	waitTimeout, listTime, writeTime, endTime time.Duration

	mu sync.Mutex
	// parties are those of members that exist.
	parties map[parties.Party]weak.Pointer[partyLimiter]
	// allowances are those of members by their names, also of members that have ended.
	allowances map[string]*allowance
}

// allowance is what a member may do so often, also if it begins anew: each change of its PediaCluster would give it all again.
type allowance struct {
	// dials bounds new connections.
	dials *rate.Limiter
	// kinds bounds resources that the member did not have before: the database keeps the name of each.
	kinds *rate.Limiter
	// had are the resources that have had a stream. Only adjust uses it, of one member at a time.
	had map[schema.GroupVersionResource]bool
	// gone is set once the member does not exist any more.
	gone bool
}

func (l *Limits) newAllowance() *allowance {
	return &allowance{
		dials: rate.NewLimiter(dialsPerSecond, l.Resources+spareDials), kinds: rate.NewLimiter(rate.Limit(kindsPerHour)/3600, 2*l.Resources),
		had: map[schema.GroupVersionResource]bool{},
	}
}

// isWhole reports whether a new allowance would allow no more.
func (a *allowance) isWhole() bool {
	isFull := func(l *rate.Limiter) bool { return l.Tokens() >= float64(l.Burst()) }
	return isFull(a.dials) && isFull(a.kinds)
}

// allowanceOf returns the allowance of a member.
func (l *Limiter) allowanceOf(name string) *allowance {
	l.mu.Lock()
	defer l.mu.Unlock()
	maps.DeleteFunc(l.allowances, func(_ string, a *allowance) bool { return a.isWhole() })
	if l.allowances[name] == nil {
		l.allowances[name] = l.newAllowance()
	}
	l.allowances[name].gone = false
	return l.allowances[name]
}

// Forget says that a member does not exist any more. Another one of its name has what is left of its allowance.
func (l *Limiter) Forget(name string) {
	l.mu.Lock()
	defer l.mu.Unlock()
	a := l.allowances[name]
	if a == nil {
		return
	}
	a.had, a.gone = map[schema.GroupVersionResource]bool{}, true
	var gone []string
	for name, a := range l.allowances {
		if a.gone {
			gone = append(gone, name)
		}
	}
	if len(gone) > allowancesOfGone {
		delete(l.allowances, slices.MaxFunc(gone, func(a, b string) int {
			return cmp.Compare(l.allowances[a].kinds.Tokens(), l.allowances[b].kinds.Tokens())
		}))
	}
}

// memoryOfLarge is the part of the memory that is for large objects and documents.
func (l *Limits) memoryOfLarge() int64 { return l.Memory.Value() / 2 }

// memoryOfBatches is the part of the memory that is for batches. What is left is for a large object that decides what readers see.
func (l *Limits) memoryOfBatches() int64 {
	return l.Memory.Value() - l.memoryOfLarge() - memoryOfText*l.ObjectSize.Value()
}

// largest is the size of the largest object or document.
func (l *Limits) largest() int64 { return max(l.ObjectSize.Value(), l.DocumentSize.Value()) }

// NewLimiter returns the limiter of all members of a process.
func NewLimiter(limits Limits) (*Limiter, error) {
	if err := limits.Validate(); err != nil {
		return nil, err
	}
	larges := int(limits.memoryOfLarge() / (memoryOfText * limits.largest()))
	return &Limiter{
		Limits: limits, memory: semaphore.NewWeighted(limits.memoryOfBatches()), large: newSlots(larges, larges), slow: newSlots(1, 1),
		largeOfRights: newSlots(1, 1), waitTimeout: waitTimeout, listTime: listTime, writeTime: writeTime, endTime: endTime,
		slots: newSlots(allSlots, allSlots), watches: newSteadySlots(limits.Watches),
		decoders:   make(chan struct{}, max(1, procs.Number()-1)),
		allowances: map[string]*allowance{}, parties: map[parties.Party]weak.Pointer[partyLimiter]{},
	}, nil
}

// memberLimiter bounds what one member uses.
type memberLimiter struct {
	*Limiter
	// party is what others know the member by, and shared is what the members of a party have together.
	party  any
	shared *semaphores
	share  int64
	// memory, large, slots and writes are those of this member, and lists those that it sends. One that takes its time, or floods search,
	// waits for itself and holds up no other.
	own     *semaphore.Weighted
	ownLong *slots
	slots   *slots
	lists   *slots
	// lostPace is when it has lost its pace with a large object, if ever.
	lostPace atomic.Value
	writes   chan struct{}
	rate     *rate.Limiter
	// listRate is the rate in lists. It is the same, but for objects that decide what readers see: a list of all that a member may have does
	// not wait.
	listRate *rate.Limiter
	// namespaces are the rates of namespaces for RBAC objects. They are nil for other objects.
	namespaces *namespaceRates
	// permits are those of the limiter for large objects.
	permits *slots
	// rights is for objects that decide what readers see, so that they wait for no others of the member. It is nil in itself.
	rights *memberLimiter
	*allowance
	connections *connections
	// overhead bounds what comes on all connections beside answers.
	overhead *overhead
	// closeIdle close the connections that no request uses.
	closeIdle []func()
	// round is what is left of the current round of discovery.
	round round
}

func (l *Limiter) forMember() *memberLimiter {
	e := l.part(l.memoryOfBatches() / memoryShares)
	e.rights = l.part(e.share / rightsShare)
	e.rights.permits, e.rights.listRate = l.largeOfRights, rate.NewLimiter(rate.Limit(l.Changes), 2*l.Objects)
	e.rights.rate = rate.NewLimiter(rightsRate*rate.Limit(l.Changes), rightsRate*l.Changes*burst)
	e.rights.namespaces = newNamespaceRates(l.Changes, l.Changes*burst)
	e.is(e)
	return e
}

// is sets what others know the member by.
func (e *memberLimiter) is(party any) { e.party, e.rights.party = party, party }

// isNamed says that the member is the one of a name, also when it begins anew, and of a party, or by itself if that is zero.
func (e *memberLimiter) isNamed(name string, party parties.Party) {
	e.allowance = e.allowanceOf(name)
	if !party.IsShared() {
		e.is(parties.OfCluster(name))
		return
	}
	e.is(partOf{party, name})
	of := e.partyLimiterOf(party)
	e.shared, e.rights.shared = &of.objects, &of.rights
}

func (l *Limiter) part(share int64) *memberLimiter {
	e := &memberLimiter{
		Limiter: l, share: share, own: semaphore.NewWeighted(share), ownLong: newSlots(1, 1), writes: make(chan struct{}, writesAtOnce),
		slots: newSlots(slotsAtOnce, slotsAtOnce/groupShare), lists: newSlots(listsAtOnce, listsAtOnce/groupShare),
		rate: rate.NewLimiter(rate.Limit(l.Changes), l.Changes*burst), allowance: l.newAllowance(),
		overhead: newOverhead(l.Resources + spareDials), connections: newConnections(), shared: l.newSemaphores(share),
	}
	e.permits, e.listRate = l.large, e.rate
	return e
}

// semaphores bound what all members of a party do at once: many clusters of one author wait for each other.
type semaphores struct {
	memory *semaphore.Weighted
	// writes are transactions, and decoders are for what waits for a processor.
	writes, decoders chan struct{}
}

// partyLimiter has the semaphores of a party: for objects, and for those that decide what readers see.
type partyLimiter struct{ objects, rights semaphores }

// newSemaphores returns the semaphores of a party whose members have a share of the memory each.
func (l *Limiter) newSemaphores(share int64) *semaphores {
	return &semaphores{
		memory: semaphore.NewWeighted(partyShares * share), writes: make(chan struct{}, partyShares*writesAtOnce),
		decoders: make(chan struct{}, cap(l.decoders)),
	}
}

// partyLimiterOf returns the limiter that the members of a party share.
func (l *Limiter) partyLimiterOf(party parties.Party) *partyLimiter {
	l.mu.Lock()
	defer l.mu.Unlock()
	maps.DeleteFunc(l.parties, func(_ parties.Party, of weak.Pointer[partyLimiter]) bool { return of.Value() == nil })
	if of := l.parties[party].Value(); of != nil {
		return of
	}
	share := l.memoryOfBatches() / memoryShares
	of := &partyLimiter{objects: *l.newSemaphores(share), rights: *l.newSemaphores(share / rightsShare)}
	l.parties[party] = weak.Make(of)
	return of
}

// objectSlot is for an object that is not tiny: one of its member, and one of all members.
type objectSlot struct{ own, shared *slot }

// slot waits for a slot for an object of an API group. It is taken before a permit for a large object, and both before memory for a
// batch. hurry is called when others wait.
func (e *memberLimiter) slot(ctx context.Context, group string, hurry func()) (*objectSlot, error) {
	own, err := e.slots.take(ctx, group, hurry)
	if err != nil {
		return nil, err
	}
	shared, err := e.Limiter.slots.take(ctx, e.party, hurry)
	if err != nil {
		own.leave()
		return nil, err
	}
	return &objectSlot{own, shared}, nil
}

// isRead says that all of the object is read.
func (p *objectSlot) isRead() {
	p.own.isRead()
	p.shared.isRead()
}

// park says that the object is large and waits for a permit. It keeps no others of its member waiting then, and of other members only those
// that have as many.
func (p *objectSlot) park(end func()) {
	p.own.leave()
	p.shared.park(end)
}

func (p *objectSlot) leave() {
	p.shared.leave()
	p.own.leave()
}

// weight is the memory of a text in a batch. That of a large one is in large, too.
func (e *memberLimiter) weight(size int) int64 { return min(memoryOfText*int64(size), e.share) }

// memories are those that an object counts for, the narrowest first.
func (e *memberLimiter) memories() [3]*semaphore.Weighted {
	return [...]*semaphore.Weighted{e.own, e.shared.memory, e.memory}
}

// tryHold takes memory if there is some.
func (e *memberLimiter) tryHold(n int64) bool {
	all := e.memories()
	for i, memory := range all {
		if !memory.TryAcquire(n) {
			release(all[:i], n)
			return false
		}
	}
	return true
}

// hold waits for memory. Do not hold any meanwhile.
func (e *memberLimiter) hold(ctx context.Context, n int64) error {
	all := e.memories()
	for i, memory := range all {
		if err := memory.Acquire(ctx, n); err != nil {
			release(all[:i], n)
			return err
		}
	}
	return nil
}

func (e *memberLimiter) release(n int64) {
	all := e.memories()
	release(all[:], n)
}

func release(memories []*semaphore.Weighted, n int64) {
	for _, memory := range slices.Backward(memories) {
		memory.Release(n)
	}
}

// work waits for a processor to read objects with.
func (e *memberLimiter) work(ctx context.Context) error {
	select {
	case e.shared.decoders <- struct{}{}:
	case <-ctx.Done():
		return context.Cause(ctx)
	}
	select {
	case e.decoders <- struct{}{}:
		return nil
	case <-ctx.Done():
		<-e.shared.decoders
		return context.Cause(ctx)
	}
}

// rest gives the processor back.
func (e *memberLimiter) rest() {
	<-e.decoders
	<-e.shared.decoders
}

// decode decodes something once a processor is free. It must not wait for anything.
func (e *memberLimiter) decode(do func()) {
	e.work(context.Background()) //nolint:errcheck // the context does not end
	defer e.rest()
	do()
}

// admit waits until a member that sends more changes than it may can send one more. Hold nothing meanwhile that others wait for.
func (e *memberLimiter) admit(ctx context.Context) error { return e.rate.Wait(ctx) }

// charge counts more changes, for which the next one waits.
func (e *memberLimiter) charge(changes int) { charge(e.rate, changes) }

func charge(to *rate.Limiter, changes int) { to.ReserveN(time.Now(), min(changes, to.Burst())) }

// admitDial refuses a connection after too many. For one request, net/http opens connections without an end and without a pause, if the API
// server takes each, and then no request on it. One that cannot be opened does not count: an API server that is away has sent nothing.
func (e *memberLimiter) admitDial() error {
	if e.dials.Tokens() >= 1 {
		return nil
	}
	return limited("connections", "", "the API server ends connections as soon as search opens them: there were %d, and then %d a second",
		e.dials.Burst(), dialsPerSecond)
}

// dialed counts a connection.
func (e *memberLimiter) dialed() { e.dials.Allow() }

// write runs a transaction once its member and its party may.
func (e *memberLimiter) write(ctx context.Context, do func() error) error {
	for _, slots := range []chan struct{}{e.writes, e.shared.writes} {
		select {
		case slots <- struct{}{}:
			defer func() { <-slots }()
		case <-ctx.Done():
			return ctx.Err()
		}
	}
	return do()
}

// throttle is a database.Throttle: it counts the rows that a member makes search remove or write again. The next transaction waits
// for them.
func (e *memberLimiter) throttle(ctx context.Context, transaction func() (rows int, err error)) error {
	if err := e.admit(ctx); err != nil {
		return err
	}
	return e.write(ctx, func() error {
		rows, err := transaction()
		e.charge(rows)
		return err
	})
}
