// Copyright The Tripod Authors.
// SPDX-License-Identifier: Apache-2.0

package member

import (
	"context"
	"fmt"
	"sync"
	"time"

	"github.com/tripod-k8s/tripod/base/hop/attention"
)

const (
	// waitTimeout is how long a member may hold a permit between two looks at its pace, which is in bytes a second.
	waitTimeout, pace = 2 * time.Second, 64 << 10
	// distrust is for how long a member waits behind others with large objects after it has lost its pace.
	distrust = 10 * time.Minute
	// rightsTime is how long a member may take for a large object that decides what readers see, before it waits behind others with it.
	rightsTime = 10 * time.Second
)

// permit lets a member send a large object or document. All members share few of them, so a member has to keep a pace. The slow ones have
// one permit for all of them, with which --member-timeout is their only limit.
type permit struct {
	limiter *memberLimiter
	// lost ends the request.
	lost  context.CancelCauseFunc
	looks *attention.Timer

	mu sync.Mutex
	// bytes are those since the last look. asked is for how long search has waited for the member since then, waits are the reads that do so
	// now, and since is when they began.
	bytes, waits int
	asked        time.Duration
	since        time.Time
	// total is asked since the beginning, and most what it may be, or zero.
	total, most time.Duration
	// slow is set if the permit is the one for slow members. read is set when all has come.
	slow, read bool
	// held are the slots that the permit stands for.
	held []*slot
}

// holdLarge waits until a large object may be read. A member reads one at a time. lost ends the request of a member that loses its pace.
func (e *memberLimiter) holdLarge(ctx context.Context, lost context.CancelCauseFunc) (*permit, error) {
	p := &permit{limiter: e, lost: lost}
	last, hasLost := e.lostPace.Load().(time.Time)
	p.slow = hasLost && time.Since(last) < distrust
	from := []*slots{e.ownLong, e.permits}
	if p.slow {
		from = []*slots{e.ownLong, e.slow, e.large}
	}
	for _, slots := range from {
		one, err := slots.take(ctx, e.party, nil)
		if err != nil {
			p.leave()
			return nil, err
		}
		p.held = append(p.held, one)
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	if !p.slow && e.permits == e.largeOfRights {
		p.most = rightsTime
	}
	p.looks = attention.AfterFunc(e.waitTimeout, p.look)
	return p, nil
}

// within bounds for how long search waits for the member with the permit.
func (p *permit) within(most time.Duration) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.most = most
}

func (p *permit) leave() {
	for _, one := range p.held {
		one.leave()
	}
}

// awaits says that a read begins to wait for the member, until came is called. Other time is that of search itself. Nil permits both.
func (p *permit) awaits() {
	if p == nil {
		return
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	p.elapse()
	p.waits++
}

// came counts the bytes of a read that has waited.
func (p *permit) came(n int) {
	if p == nil {
		return
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	p.elapse()
	p.waits--
	p.bytes += n
}

// elapse counts the time until now. The caller has locked the permit.
func (p *permit) elapse() {
	now := time.Now()
	if p.waits > 0 {
		p.asked += now.Sub(p.since)
	}
	p.since = now
}

// look takes the permit from a member that has lost its pace, unless it may be the one that is slow. Otherwise it returns after which time
// to look again.
func (p *permit) look() (again time.Duration) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.read {
		return 0
	}
	p.elapse()
	// The timer counts only the time in which search had a processor. If it had none, what has come waits to be read.
	p.asked = min(p.asked, p.limiter.waitTimeout)
	// A time in which search was busy for the most part says nothing.
	keeps := p.asked < p.limiter.waitTimeout/2 || float64(p.bytes) >= pace*p.asked.Seconds()
	p.total += p.asked
	late := p.most > 0 && p.total > p.most
	if p.bytes, p.asked = 0, 0; late || !keeps {
		p.limiter.lostPace.Store(time.Now())
		switch {
		case late:
			p.lost(&LimitError{Limit: limitTime, Message: fmt.Sprintf("a large object or discovery takes longer than %s", p.most)})
			return 0
		case !p.slow && !p.becomeSlow():
			p.lost(&LimitError{
				Limit: limitTime, Message: fmt.Sprintf("a large object comes with less than %d KiB a second, and search reads one at a time of those",
					pace>>10),
			})
			return 0
		}
	}
	return p.limiter.waitTimeout
}

// becomeSlow makes the permit the one for slow members, if that is free. The caller has locked the permit.
func (p *permit) becomeSlow() bool {
	if p.limiter.permits != p.limiter.large {
		return false
	}
	one := p.limiter.slow.try(p.limiter.party)
	if one != nil {
		p.slow, p.held = true, append(p.held, one)
	}
	return p.slow
}

// complete says that all of the object was read. The permit stays, as it is still in memory.
func (p *permit) complete() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.looks.Stop()
	p.read = true
}

// release gives the permit back. It may be called again.
func (p *permit) release() {
	p.complete()
	p.mu.Lock()
	defer p.mu.Unlock()
	p.leave()
}

// holder takes a permit for a document of which its member has sent more than a small object.
type holder struct {
	permit *permit
	lost   context.CancelCauseFunc
}

// hold waits for the permit.
func (h *holder) hold(ctx context.Context, e *memberLimiter) (err error) {
	if h.permit == nil {
		h.permit, err = e.holdLarge(ctx, h.lost)
	}
	return err
}

func (h *holder) release() {
	if h.permit != nil {
		h.permit.release()
	}
}

type holderKey struct{}

// holding returns a context for a request whose answer comes with a permit.
func holding(ctx context.Context, h *holder) context.Context {
	return context.WithValue(ctx, holderKey{}, h)
}
