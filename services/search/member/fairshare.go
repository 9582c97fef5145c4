// Copyright The Tripod Authors.
// SPDX-License-Identifier: Apache-2.0

package member

import (
	"cmp"
	"math"
	"slices"
	"time"
)

// smallShare is which part of the slots for long each cluster has before all that have more, and keptShare which part of them a party may
// have in this way. So the few watches of a cluster stay, however many others have, and whether it is one of a fleet or by itself. Beyond
// that, a party has one share, as its author may have made any number of clusters.
const smallShare, keptShare = 50, 4

// partOf is a member of a party: by has the name of both.
type partOf struct{ party, name any }

// party has and wants slots. What it has does not count those that it is about to lose.
type party struct {
	has int
	// gone counts the slots that it has not left yet, and that do not count.
	gone int
	// small counts those that a cluster has before all others, of each of its parts.
	small int
	queue []*slot
	// used is for how long it has had slots, of which half counts after each distrust, as of a time.
	used time.Duration
	asOf time.Time
	// in is the party that this one is part of, or nil. parts are those of this one.
	in    *party
	parts map[*party]bool
	// parked and last are the slots of it that others may get, in the order in which they were parked. The slots in last go after the
	// parked ones of the whole party.
	parked, last []*slot
}

// whole returns the party that shares with others.
func (a *party) whole() *party {
	if a.in != nil {
		return a.in
	}
	return a
}

// pass has the use of a party count less as time passes.
func (a *party) pass(now time.Time) {
	a.used = time.Duration(float64(a.used) * math.Exp2(-now.Sub(a.asOf).Seconds()/distrust.Seconds()))
	a.asOf = now
}

// counts counts slots that a party has now.
func (p *slots) counts(of *party, weight int) {
	before := min(of.has, p.small)
	of.has += weight
	small := min(of.has, p.small) - before
	of.small += small
	if whole := of.in; whole != nil {
		whole.has += weight
		whole.small += small
	}
}

// share is what a whole party has: kept is what goes before all others, and rest is the rest.
type share struct{ kept, rest int }

// shareOf returns what a party has that has so many slots, of which some are small.
func (p *slots) shareOf(has, small int) share {
	kept := min(small, p.all-p.all/keptShare)
	return share{kept, has - kept}
}

func (p *slots) shareOfAll(of *party) share { return p.shareOf(of.whole().has, of.whole().small) }

// without returns what the party of a slot has without it.
func (p *slots) without(one *slot) share {
	whole, of := one.by.whole(), one.by
	small := min(of.has, p.small) - min(of.has-one.weight, p.small)
	return p.shareOf(whole.has-one.weight, whole.small-small)
}

// isSmall reports whether a party wants a slot that goes before all others.
func (p *slots) isSmall(a *party) bool {
	weight := a.queue[0].weight
	return a.has+weight <= p.small && p.shareOfAll(a).kept+weight <= p.all-p.all/keptShare
}

// compare returns less than zero if a party is before another one in line.
func (p *slots) compare(a, b *party) int {
	of, other := p.shareOfAll(a), p.shareOfAll(b)
	isSmall := p.isSmall(a)
	switch {
	case isSmall != p.isSmall(b) && isSmall:
		return -1
	case isSmall != p.isSmall(b):
		return 1
	case isSmall:
		of.rest, other.rest = 0, 0
	default:
		of.kept, other.kept = 0, 0
	}
	return cmp.Or(cmp.Compare(of.kept+of.rest, other.kept+other.rest), cmp.Compare(a.whole().used, b.whole().used),
		cmp.Compare(a.has, b.has), cmp.Compare(a.used, b.used), a.queue[0].since.Compare(b.queue[0].since))
}

// loses reports whether a party loses a slot of its own to the first of those that another one waits for.
func (p *slots) loses(one *slot, to *party) bool {
	weight, isOwn := to.queue[0].weight, one.by.whole() == to.whole()
	switch {
	case !p.steady && isOwn:
		return one.by == to || one.by.has > to.has
	case !p.steady:
		return one.by.whole().has > to.whole().has
	case isOwn:
		return one.by.has-one.weight >= to.has+weight
	}
	left, wants := p.without(one), p.shareOfAll(to)
	keeps := left.kept == p.shareOfAll(one.by).kept
	if p.isSmall(to) {
		return keeps || left.kept >= wants.kept+weight
	}
	return keeps && left.rest >= wants.rest+weight
}

// goesBefore reports whether a slot that was taken later than another one goes first.
func (p *slots) goesBefore(o, other *slot, next *party) bool {
	rank := func(one *slot) (int, int) {
		all := p.shareOfAll(one.by)
		if p.without(one).kept == all.kept {
			return 0, -all.rest
		}
		return 1, -all.kept
	}
	kept, has := rank(o)
	otherKept, otherHas := rank(other)
	if first := cmp.Or(cmp.Compare(kept, otherKept), cmp.Compare(has, otherHas)); first != 0 {
		return first < 0
	}
	if o.last != other.last {
		return !o.last
	}
	if o.by.has != other.by.has {
		return o.by.has > other.by.has
	}
	if (o.by == next) != (other.by == next) {
		return o.by == next
	}
	return o.number > other.number
}

// setParked notes whether others may get a slot. One that waits is noted when it is given.
func (o *slot) setParked(is bool) {
	of := &o.by.parked
	if o.last {
		of = &o.by.last
	}
	at := slices.Index(*of, o)
	switch {
	case is && at < 0 && o.number > 0 && !o.ending && !o.left:
		*of = append(*of, o)
	case !is && at >= 0:
		*of = slices.Delete(*of, at, at+1)
	}
}

// firstParked returns the slot of a party that goes first, or nil. All of a cluster that have to do with each other have one weight.
func (a *party) firstParked() *slot {
	for _, some := range [][]*slot{a.parked, a.last} {
		if len(some) > 0 {
			return some[len(some)-1]
		}
	}
	return nil
}

// trials are what was tried to find a slot for the parties in a line, in its order. Parties behind others in line have as many slots or
// more, so they get none that those did not get. Without that, each of a thousand that wait would look at each of a thousand others.
type trials struct {
	*slots
	// all and own are the smallest weights for which nothing was found: among all, and among the parts of a party.
	all map[bool]int
	own map[trial]int
}

type trial struct {
	whole   *party
	isSmall bool
}

func (p *slots) newTrials() *trials {
	return &trials{slots: p, all: map[bool]int{}, own: map[trial]int{}}
}

// loser returns the parked slot that a party gets, or nil.
func (t *trials) loser(next *party) (most *slot) {
	consider := func(of *party) {
		one := of.firstParked()
		if one != nil && t.loses(one, next) && (most == nil || t.goesBefore(one, most, next)) {
			most = one
		}
	}
	now, weight := trial{next.whole(), t.isSmall(next)}, next.queue[0].weight
	failed := func(least int) bool { return t.steady && least > 0 && least <= weight }
	if failed(t.all[now.isSmall]) {
		if len(now.whole.parts) == 0 || failed(t.own[now]) {
			return nil
		}
		for of := range now.whole.parts {
			consider(of)
		}
	} else {
		for _, of := range t.parties {
			consider(of)
		}
		if most == nil {
			t.all[now.isSmall] = weight
		}
	}
	if most == nil {
		t.own[now] = weight
	}
	return most
}
