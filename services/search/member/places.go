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
// one that has had places for the shortest time lately, and of these to the one that waits longest.
type places struct {
	// all is how many there are, and each how many a party may have.
	all, each int
	// steady is set if places are for long. A party loses one only to another that has no more than it then: who wants more than a fair share
	// waits, and does not take turns with itself.
	steady bool

	mu      sync.Mutex
	parties map[any]*party
	// taken are in the order in which they were taken, and used is how many these count for. waiting counts those that are asked for, ending
	// those that will be left, and freeing is how many these count for.
	taken                          []*place
	used, waiting, ending, freeing int
}

// party has and wants places. What it has does not count those that it is about to lose.
type party struct {
	has   int
	queue []*place
	// used is for how long it has had places, of which half counts after each distrust, as of a time.
	used time.Duration
	asOf time.Time
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
	// hurry is called when others wait, unless it is nil. end is set while the place is parked.
	hurry, end   func()
	ending, left bool
}

// newPlaces returns places of which a party may have some.
func newPlaces(all, each int) *places {
	return &places{all: all, each: each, parties: map[any]*party{}}
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
	if p.parties[by] == nil {
		p.parties[by] = &party{asOf: now}
	}
	one.in, one.by, one.since, one.given = p, p.parties[by], now, make(chan struct{})
	one.by.queue = append(one.by.queue, one)
	p.waiting++
	p.give(now)
	p.press()
	return one
}

// give gives free places to those that wait for them. The caller has locked the places, as for all that follows.
func (p *places) give(now time.Time) {
	for p.used < p.all {
		next := p.next(now)
		if next == nil || p.used+next.queue[0].weight > p.all {
			return
		}
		one := next.queue[0]
		next.queue = slices.Delete(next.queue, 0, 1)
		next.has += one.weight
		p.used += one.weight
		p.waiting--
		one.since = now
		p.taken = append(p.taken, one)
		if close(one.given); one.granted != nil {
			one.granted()
		}
	}
}

// next returns the party that gets the next place, or nil. It forgets those that need not be known.
func (p *places) next(now time.Time) (next *party) {
	for name, one := range p.parties {
		one.pass(now)
		if len(one.queue) == 0 {
			if one.has == 0 && one.used < time.Second {
				delete(p.parties, name)
			}
			continue
		}
		if one.has < p.each && (next == nil || one.before(next)) {
			next = one
		}
	}
	return next
}

func (a *party) before(b *party) bool {
	return cmp.Or(cmp.Compare(a.has, b.has), cmp.Compare(a.used, b.used), a.queue[0].since.Compare(b.queue[0].since)) < 0
}

// pass has the use of a party count less as time passes.
func (a *party) pass(now time.Time) {
	a.used = time.Duration(float64(a.used) * math.Exp2(-now.Sub(a.asOf).Seconds()/distrust.Seconds()))
	a.asOf = now
}

// press has those hurry that have places which others wait for, and takes one from the party with most that has parked one.
func (p *places) press() {
	if p.waiting == 0 {
		return
	}
	next := p.next(time.Now())
	for _, one := range p.taken {
		if one.hurry != nil && (next != nil || len(one.by.queue) > 0) { // without next, parties wait for themselves
			one.hurry()
		}
	}
	if next == nil || p.isEnough(next) {
		return
	}
	var most *place
	for _, one := range p.taken {
		if one.end == nil || one.ending || !p.loses(one, next) {
			continue
		}
		if most == nil || one.by.has > most.by.has || one.by.has == most.by.has && (one.by == next || most.by != next) {
			most = one
		}
	}
	if most == nil {
		return
	}
	most.ending = true
	most.by.has -= most.weight
	p.ending++
	p.freeing += most.weight
	most.end()
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
	if p.steady {
		return one.by.has-one.weight >= to.has+to.queue[0].weight
	}
	return one.by == to || one.by.has > to.has
}

// isRead says that the place is not the sender's to give back any more, so it need not hurry.
func (o *place) isRead() {
	o.in.mu.Lock()
	defer o.in.mu.Unlock()
	o.hurry = nil
}

// park says that the place is for something that waits for something else. end is called, with the lock of the places held, when another
// party needs the place that has fewer, or this one if no other has more. The place is to be left then.
func (o *place) park(end func()) {
	o.in.mu.Lock()
	defer o.in.mu.Unlock()
	o.hurry, o.end = nil, end
	o.in.press()
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
		return
	}
	p.taken = slices.Delete(p.taken, slices.Index(p.taken, o), slices.Index(p.taken, o)+1)
	if p.used -= o.weight; o.ending {
		p.ending--
		p.freeing -= o.weight
	} else {
		o.by.has -= o.weight
	}
	o.by.pass(now)
	o.by.used += now.Sub(o.since)
	p.give(now)
	p.press()
}
