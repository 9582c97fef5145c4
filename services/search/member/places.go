// Copyright The Tripod Authors.
// SPDX-License-Identifier: Apache-2.0

package member

import (
	"cmp"
	"context"
	"math"
	"slices"
	"sync"
	"time"
)

// places are shared by parties, such as clusters, or the API groups of one. A free place goes to the party that has fewest, of these to the
// one that has had places for the shortest time lately, and of these to the one that waits longest. Clusters that one hand has made are one
// party beside all others, and share among themselves what it gets.
type places struct {
	// all is how many there are, and each how many a party may have.
	all, each int
	// steady is set if places are for long. A party loses one only to another that has no more than it then: who wants more than a fair share
	// waits, and does not take turns with itself.
	steady bool
	// grace is the constant, except in tests.
	grace time.Duration

	mu      sync.Mutex
	parties map[any]*party
	// taken are in the order in which they were taken, and used is how many these count for. waiting counts those that are asked for, ending
	// those that will be left soon, and freeing is how many these count for.
	taken                          []*place
	used, waiting, ending, freeing int
	// short is since when the first party in line needs more places than are free, or zero. looks is set while a timer looks at it again.
	short time.Time
	looks bool
}

// placesGrace is how long free places are kept for a party that needs more than there are, before others get them for as long, and how long
// a place that its owner has to leave counts as one that will be free.
const placesGrace = 10 * time.Second

// partOf is a member of a party: by has the name of both.
type partOf struct{ party, name any }

// party has and wants places. What it has does not count those that it is about to lose.
type party struct {
	has   int
	queue []*place
	// used is for how long it has had places, of which half counts after each distrust, as of a time.
	used time.Duration
	asOf time.Time
	// in is the party that this one is part of, or nil. parts counts those of this one.
	in    *party
	parts int
}

// whole returns the party that shares with others.
func (a *party) whole() *party {
	if a.in != nil {
		return a.in
	}
	return a
}

// add counts places that the party has now.
func (a *party) add(weight int) {
	if a.has += weight; a.in != nil {
		a.in.add(weight)
	}
}

// place is one of them.
type place struct {
	in    *places
	by    *party
	since time.Time
	given chan struct{}
	// weight is how many it counts for, and granted is called, with the lock of the places held, when it is given, unless it is nil.
	weight  int
	granted func()
	// hurry is called when others wait, unless it is nil. end is set while the place is parked, and last if others of the party go before.
	hurry, end func()
	last       bool
	// ending is set when the place is to be left, and late stops what has it count as taken again.
	ending, left bool
	late         *time.Timer
}

// newPlaces returns places of which a party may have some.
func newPlaces(all, each int) *places {
	return &places{all: all, each: each, grace: placesGrace, parties: map[any]*party{}}
}

// take waits for a place. hurry may be nil. Otherwise the places call it whenever others wait, with their lock held.
func (p *places) take(ctx context.Context, by any, hurry func()) (*place, error) {
	one := p.ask(by, hurry)
	select {
	case <-one.given:
		return one, nil
	case <-ctx.Done():
		one.leave()
		return nil, context.Cause(ctx)
	}
}

// try takes a place if no goroutine waits for it.
func (p *places) try(by any) *place {
	one := p.ask(by, nil)
	select {
	case <-one.given:
		return one
	default:
		one.leave()
		return nil
	}
}

// count returns how many places are taken.
func (p *places) count() int {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.used
}

func (p *places) ask(by any, hurry func()) *place { return p.add(by, &place{weight: 1, hurry: hurry}) }

// add asks for a place that has its weight, and what is called.
func (p *places) add(by any, one *place) *place {
	p.mu.Lock()
	defer p.mu.Unlock()
	now := time.Now()
	one.in, one.by, one.since, one.given = p, p.of(by, now), now, make(chan struct{})
	one.by.queue = append(one.by.queue, one)
	p.waiting++
	p.share(now)
	return one
}

// of returns a party. The caller has locked the places, as for all that follows.
func (p *places) of(by any, now time.Time) *party {
	one := p.parties[by]
	if one == nil {
		one = &party{asOf: now}
		p.parties[by] = one
		if part, is := by.(partOf); is {
			one.in = p.of(part.party, now)
			one.in.parts++
		}
	}
	return one
}

// share gives free places, and takes others back.
func (p *places) share(now time.Time) {
	p.give(now)
	p.press(now)
}

// shareAgain does that later.
func (p *places) shareAgain() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.looks = false
	p.share(time.Now())
}

// give gives free places to those that wait for them.
func (p *places) give(now time.Time) {
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

// grant gives a party the first place that it waits for.
func (p *places) grant(to *party, now time.Time) {
	one := to.queue[0]
	to.queue = slices.Delete(to.queue, 0, 1)
	to.add(one.weight)
	p.used += one.weight
	p.waiting--
	one.since = now
	p.taken = append(p.taken, one)
	if close(one.given); one.granted != nil {
		one.granted()
	}
}

// keeps reports whether the free places are kept for the first party in line, which needs more. Others get them half of the time: it may
// never get as many.
func (p *places) keeps(now time.Time) bool {
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

// line returns the parties that may get places, the next one first. Of places for a short time, it returns that one only. It forgets
// parties that need not be known.
func (p *places) line(now time.Time) (line []*party) {
	for name, one := range p.parties {
		one.pass(now)
		one.whole().pass(now)
		if len(one.queue) == 0 {
			if one.has == 0 && one.parts == 0 && one.used < time.Second {
				p.forget(name, one)
			}
			continue
		}
		switch {
		case one.has >= p.each:
		case p.steady || len(line) == 0:
			line = append(line, one)
		case one.compare(line[0]) < 0:
			line[0] = one
		}
	}
	slices.SortFunc(line, (*party).compare)
	return line
}

func (p *places) forget(name any, one *party) {
	delete(p.parties, name)
	if one.in != nil {
		one.in.parts--
	}
}

// compare returns less than zero if a party is before another one in line.
func (a *party) compare(b *party) int {
	of, other := a.whole(), b.whole()
	return cmp.Or(cmp.Compare(of.has, other.has), cmp.Compare(of.used, other.used), cmp.Compare(a.has, b.has), cmp.Compare(a.used, b.used),
		a.queue[0].since.Compare(b.queue[0].since))
}

// pass has the use of a party count less as time passes.
func (a *party) pass(now time.Time) {
	a.used = time.Duration(float64(a.used) * math.Exp2(-now.Sub(a.asOf).Seconds()/distrust.Seconds()))
	a.asOf = now
}

// press has those hurry that have places which others wait for, and takes one from the party with most that has parked one. If the first
// party in line cannot get one in this way, the next one may: it may need less.
func (p *places) press(now time.Time) {
	if p.waiting == 0 {
		return
	}
	line := p.line(now)
	for _, one := range p.taken {
		if one.hurry != nil && (len(line) > 0 || len(one.by.queue) > 0) { // without a line, parties wait for themselves
			one.hurry()
		}
	}
	for _, next := range line {
		if p.isEnough(next) {
			return
		}
		if one := p.loser(next); one != nil {
			p.end(one)
			return
		}
	}
}

// loser returns the parked place that a party gets, or nil.
func (p *places) loser(next *party) (most *place) {
	for _, one := range p.taken {
		if one.end == nil || one.ending || !p.loses(one, next) {
			continue
		}
		if most == nil || one.goesBefore(most, next) {
			most = one
		}
	}
	return most
}

// goesBefore reports whether a place that was taken later than another one goes first.
func (o *place) goesBefore(other *place, next *party) bool {
	if first := cmp.Compare(other.by.whole().has, o.by.whole().has); first != 0 {
		return first < 0
	}
	if o.last != other.last {
		return !o.last
	}
	return o.by.has > other.by.has || o.by.has == other.by.has && (o.by == next || other.by != next)
}

// end has a place left. Unless that is soon, others have to leave theirs.
func (p *places) end(one *place) {
	one.ending = true
	one.by.add(-one.weight)
	p.ending++
	p.freeing += one.weight
	one.late = time.AfterFunc(p.grace, func() {
		p.mu.Lock()
		defer p.mu.Unlock()
		if !one.left {
			p.endsNoMore(one)
			p.share(time.Now())
		}
	})
	one.end()
}

// endsNoMore says that a place does not count any more as one that will be left soon.
func (p *places) endsNoMore(one *place) {
	if one.late != nil {
		one.late.Stop()
		one.late = nil
		p.ending--
		p.freeing -= one.weight
	}
}

// isEnough reports whether others are leaving as many places as are needed. If places are for long, who has fewest is known only once the
// next party has its own.
func (p *places) isEnough(next *party) bool {
	if p.steady {
		return p.used-p.freeing+next.queue[0].weight <= p.all
	}
	return p.ending >= p.waiting
}

// loses reports whether a party loses a place of its own to the first of those that another one waits for.
func (p *places) loses(one *place, to *party) bool {
	has, wants := one.by, to
	if has.whole() != wants.whole() {
		has, wants = has.whole(), wants.whole()
	}
	if p.steady {
		return has.has-one.weight >= wants.has+to.queue[0].weight
	}
	return one.by == to || has.has > wants.has
}

// isRead says that the place is not the sender's to give back any more, so it need not hurry.
func (o *place) isRead() {
	o.in.mu.Lock()
	defer o.in.mu.Unlock()
	o.hurry = nil
}

// park says that the place is for something that waits for something else. end is called, with the lock of the places held, when another
// party needs the place that has fewer, or this one if no other has more. The place is to be left then.
func (o *place) park(end func()) { o.parkAs(false, end) }

// parkAs does the same. With last, other places of the party go before.
func (o *place) parkAs(last bool, end func()) {
	o.in.mu.Lock()
	defer o.in.mu.Unlock()
	o.hurry, o.end, o.last = nil, end, last
	o.in.press(time.Now())
}

// use takes a parked place for what it is for, and reports whether that was in time.
func (o *place) use() bool {
	o.in.mu.Lock()
	defer o.in.mu.Unlock()
	o.end = nil
	return !o.ending && !o.left
}

// leave gives the place back, or waits for it no more. It may be called again.
func (o *place) leave() {
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
		p.share(now) // it may have kept places from others
		return
	}
	p.taken = slices.Delete(p.taken, slices.Index(p.taken, o), slices.Index(p.taken, o)+1)
	if p.used -= o.weight; o.ending {
		p.endsNoMore(o)
	} else {
		o.by.add(-o.weight)
	}
	for _, one := range []*party{o.by, o.by.in} {
		if one != nil {
			one.pass(now)
			one.used += now.Sub(o.since)
		}
	}
	p.share(now)
}
