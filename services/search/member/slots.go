// Copyright The Tripod Authors.
// SPDX-License-Identifier: Apache-2.0

package member

import (
	"context"
	"slices"
	"sync"
	"time"
)

// slots are shared by parties, such as clusters, or the API groups of one. A free slot goes to the party that has fewest, of these to the
// one that has had slots for the shortest time lately, and of these to the one that waits longest. Clusters that one hand has made are one
// party beside all others, and share among themselves what it gets.
type slots struct {
	// all is how many there are, and each how many a party may have.
	all, each int
	// steady is set if slots are for long. A party loses one only to another that has no more than it then: one that wants more than a fair
	// share waits, and does not take turns with itself. small is how many each cluster has before all that have more, or zero.
	steady bool
	small  int
	// grace is the constant, except in tests.
	grace time.Duration

	mu      sync.Mutex
	parties map[any]*party
	// taken are in the order in which they were taken, and used is how many these count for. waiting counts those that are asked for, ending
	// those that will be left soon, and freeing is how many these count for.
	taken []*slot
	// given counts all that were ever taken.
	given                          int
	used, waiting, ending, freeing int
	// short is since when the first party in line needs more slots than are free, or zero. looks is set while a timer looks at it again.
	short time.Time
	looks bool
}

// slotsGrace is how long free slots are kept for a party that needs more than there are, before others get them for as long, and how long
// a slot that its owner has to leave counts as one that will be free.
const slotsGrace = 10 * time.Second

// slot is one of them.
type slot struct {
	in    *slots
	by    *party
	since time.Time
	given chan struct{}
	// weight is how many it counts for, and granted is called, with the lock of the slots held, when it is given, unless it is nil.
	weight  int
	granted func()
	// hurry is called when others wait, unless it is nil. end is set while the slot is parked, and last if others of the party go before.
	hurry, end func()
	last       bool
	// ending is set when the slot is to be left, and late stops what has it count as taken again. gone is set while its party does not count
	// it.
	ending, left, gone bool
	late               *time.Timer
	// number is larger for those that were taken later.
	number int
}

// newSlots returns slots of which a party may have some.
func newSlots(all, each int) *slots {
	return &slots{all: all, each: each, grace: slotsGrace, parties: map[any]*party{}}
}

// newSteadySlots returns slots for long.
func newSteadySlots(all int) *slots {
	p := newSlots(all, all)
	p.steady, p.small = true, all/smallShare
	return p
}

// take waits for a slot. hurry may be nil. Otherwise the slots call it whenever others wait, with their lock held.
func (p *slots) take(ctx context.Context, by any, hurry func()) (*slot, error) {
	one := p.ask(by, hurry)
	select {
	case <-one.given:
		return one, nil
	case <-ctx.Done():
		one.leave()
		return nil, context.Cause(ctx)
	}
}

// try takes a slot if no goroutine waits for it.
func (p *slots) try(by any) *slot {
	one := p.ask(by, nil)
	select {
	case <-one.given:
		return one
	default:
		one.leave()
		return nil
	}
}

// count returns how many slots are taken.
func (p *slots) count() int {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.used
}

func (p *slots) ask(by any, hurry func()) *slot { return p.add(by, &slot{weight: 1, hurry: hurry}) }

// add asks for a slot that has its weight, and what is called.
func (p *slots) add(by any, one *slot) *slot {
	p.mu.Lock()
	defer p.mu.Unlock()
	now := time.Now()
	one.in, one.by, one.since, one.given = p, p.of(by, now), now, make(chan struct{})
	one.by.queue = append(one.by.queue, one)
	p.waiting++
	if !p.steady || len(one.by.queue) == 1 { // otherwise the line is as it was
		p.share(now)
	}
	return one
}

// of returns a party. The caller has locked the slots, as for all that follows.
func (p *slots) of(by any, now time.Time) *party {
	one := p.parties[by]
	if one == nil {
		one = &party{asOf: now}
		p.parties[by] = one
		if part, is := by.(partOf); is {
			one.in = p.of(part.party, now)
			if one.in.parts == nil {
				one.in.parts = map[*party]bool{}
			}
			one.in.parts[one] = true
		}
	}
	return one
}

// share gives free slots, and takes others back.
func (p *slots) share(now time.Time) {
	p.give(now)
	p.press(now)
}

// shareAgain does that later.
func (p *slots) shareAgain() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.looks = false
	p.share(time.Now())
}

// give gives free slots to those that wait for them.
func (p *slots) give(now time.Time) {
	for p.used < p.all {
		line := p.line(now)
		if len(line) == 0 {
			p.short = time.Time{}
			return
		}
		next := line[0]
		if next.queue[0].weight > p.all-p.used {
			if p.keeps(now) {
				return
			}
			i := slices.IndexFunc(line, func(one *party) bool { return one.queue[0].weight <= p.all-p.used })
			if i < 0 {
				return
			}
			next = line[i]
		} else {
			p.short = time.Time{}
		}
		p.grant(next, now)
	}
}

// grant gives a party the first slot that it waits for.
func (p *slots) grant(to *party, now time.Time) {
	one := to.queue[0]
	to.queue = slices.Delete(to.queue, 0, 1)
	p.counts(to, one.weight)
	p.used += one.weight
	p.waiting--
	p.given++
	one.since, one.number = now, p.given
	p.taken = append(p.taken, one)
	one.setParked(one.end != nil)
	if close(one.given); one.granted != nil {
		one.granted()
	}
}

// keeps reports whether the free slots are kept for the first party in line, which needs more. Others get them half of the time: it may
// never get as many.
func (p *slots) keeps(now time.Time) bool {
	if p.short.IsZero() {
		p.short = now
	}
	turns := now.Sub(p.short) / p.grace
	if turns%2 > 0 {
		return false
	}
	if !p.looks {
		p.looks = true
		time.AfterFunc(p.short.Add((turns+1)*p.grace).Sub(now), p.shareAgain)
	}
	return true
}

// line returns the parties that may get slots, the next one first. Of slots for a short time, it returns that one only. It forgets
// parties that need not be known.
func (p *slots) line(now time.Time) (line []*party) {
	for name, one := range p.parties {
		one.pass(now)
		one.whole().pass(now)
		if len(one.queue) == 0 {
			if one.has == 0 && one.gone == 0 && len(one.parts) == 0 && one.used < time.Second {
				p.forget(name, one)
			}
			continue
		}
		switch {
		case one.has >= p.each:
		case p.steady || len(line) == 0:
			line = append(line, one)
		case p.compare(one, line[0]) < 0:
			line[0] = one
		}
	}
	slices.SortFunc(line, p.compare)
	return line
}

func (p *slots) forget(name any, one *party) {
	delete(p.parties, name)
	if one.in != nil {
		delete(one.in.parts, one)
	}
}

// press has those hurry that have slots which others wait for, and takes one from the party with most that has parked one. If the first
// party in line cannot get one in this way, the next one may: it may need less.
func (p *slots) press(now time.Time) {
	if p.waiting == 0 {
		return
	}
	line := p.line(now)
	for _, one := range p.taken {
		if one.hurry != nil && (len(line) > 0 || len(one.by.queue) > 0) { // without a line, parties wait for themselves
			one.hurry()
		}
	}
	tried := p.newTrials()
	for _, next := range line {
		if p.isEnough(next) {
			return
		}
		if one := tried.loser(next); one != nil {
			p.end(one)
			return
		}
	}
}

// end has a slot left. Unless that is soon, others have to leave theirs.
func (p *slots) end(one *slot) {
	one.setParked(false)
	one.ending = true
	one.setGone(true)
	p.ending++
	p.freeing += one.weight
	one.late = time.AfterFunc(p.grace, func() {
		p.mu.Lock()
		defer p.mu.Unlock()
		if !one.left {
			p.endsNoMore(one)
			one.setGone(false) // it has the slot for longer
			p.share(time.Now())
		}
	})
	one.end()
}

// setGone has the party of a slot not count it, or count it again.
func (o *slot) setGone(is bool) {
	if o.gone == is {
		return
	}
	if o.gone = is; is {
		o.in.counts(o.by, -o.weight)
		o.by.gone++
	} else {
		o.in.counts(o.by, o.weight)
		o.by.gone--
	}
}

// endsNoMore says that a slot does not count any more as one that will be left soon.
func (p *slots) endsNoMore(one *slot) {
	if one.late != nil {
		one.late.Stop()
		one.late = nil
		p.ending--
		p.freeing -= one.weight
	}
}

// isEnough reports whether others are leaving as many slots as are needed. If slots are for long, the party with fewest is known only once
// the next party has its own.
func (p *slots) isEnough(next *party) bool {
	if p.steady {
		return p.used-p.freeing+next.queue[0].weight <= p.all
	}
	return p.ending >= p.waiting
}

// isRead says that the slot is not the sender's to give back any more, so it need not hurry.
func (o *slot) isRead() {
	o.in.mu.Lock()
	defer o.in.mu.Unlock()
	o.hurry = nil
}

// park says that the slot is for something that waits for something else. end is called, with the lock of the slots held, when another
// party needs the slot that has fewer, or this one if no other has more. The slot is to be left then.
func (o *slot) park(end func()) { o.parkAs(false, end) }

// parkAs does the same. With last, other slots of the party go before.
func (o *slot) parkAs(last bool, end func()) {
	o.in.mu.Lock()
	defer o.in.mu.Unlock()
	o.setParked(false)
	o.hurry, o.end, o.last = nil, end, last
	o.setParked(true)
	o.in.press(time.Now())
}

// use takes a parked slot for what it is for, and reports whether that was in time.
func (o *slot) use() bool {
	o.in.mu.Lock()
	defer o.in.mu.Unlock()
	o.setParked(false)
	o.end = nil
	return !o.ending && !o.left
}

// leave gives the slot back, or waits for it no more. It may be called again.
func (o *slot) leave() {
	p := o.in
	p.mu.Lock()
	defer p.mu.Unlock()
	if o.left {
		return
	}
	o.left = true
	now := time.Now()
	if at := slices.Index(o.by.queue, o); at >= 0 {
		o.by.queue = slices.Delete(o.by.queue, at, at+1)
		p.waiting--
		p.share(now) // it may have kept slots from others
		return
	}
	p.taken = slices.Delete(p.taken, slices.Index(p.taken, o), slices.Index(p.taken, o)+1)
	o.setParked(false)
	p.used -= o.weight
	p.endsNoMore(o)
	o.setGone(true)
	o.by.gone--
	for _, one := range []*party{o.by, o.by.in} {
		if one != nil {
			one.pass(now)
			one.used += now.Sub(o.since)
		}
	}
	p.share(now)
}
