// Copyright The Tripod Authors.
// SPDX-License-Identifier: Apache-2.0

package tokens

import (
	"errors"
	"fmt"
	"sync"
	"time"

	"k8s.io/utils/lru"

	identityv1 "github.com/tripod-k8s/tripod/proto/identity/v1"
)

const (
	// maxAnswers is how many tokens are remembered. A pod's token is one.
	maxAnswers = 16384
	// maxSilence is how long a replica that is followed may be silent. It gives a sign of life every second.
	maxSilence = 3 * time.Second
)

// use is how an answer was found in the cache.
type use string

const (
	miss  use = "miss"
	hit   use = "hit"
	grace use = "grace"
)

// cache keeps good answers of the replica of core that is followed.
type cache struct {
	// grace is how long answers are used that held when the last replica was lost.
	grace time.Duration

	mu sync.Mutex
	// entries are *entry by key.
	entries *lru.Cache
	// dependents are the entries that depend on something.
	dependents map[dependency]map[*entry]struct{}

	// followed is whether a stream is followed. Where none is, the others are about the last one.
	followed bool
	run      string
	// sequence is the last one seen, at lastMessage. It includes all invalidations before.
	sequence      uint64
	invalidations invalidations
	lastMessage   time.Time
	// lost is when the stream was lost, if it is.
	lost time.Time
}

// entry is an answer in the cache.
type entry struct {
	key key
	*answer
}

func newCache(grace time.Duration) *cache {
	c := &cache{grace: grace}
	c.clear()
	return c
}

func (c *cache) clear() {
	c.dependents = map[dependency]map[*entry]struct{}{}
	c.entries = lru.NewWithEvictionFunc(maxAnswers, func(_ lru.Key, value any) { c.forget(value.(*entry)) })
}

// forget keeps the dependents in step with the entries.
func (c *cache) forget(e *entry) {
	for _, d := range e.dependencies {
		delete(c.dependents[d], e)
		if len(c.dependents[d]) == 0 {
			delete(c.dependents, d)
		}
	}
}

// follow begins with the first message of a stream. What is known from others is dropped: invalidations of it may have
// been missed, and another replica may know less than the one before.
func (c *cache) follow(run string, sequence uint64) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.clear()
	c.followed, c.run, c.sequence = true, run, sequence
	c.invalidations.startAfter(sequence)
	c.lastMessage = time.Now()
}

// unfollow says that the stream is lost.
func (c *cache) unfollow() {
	c.mu.Lock()
	defer c.mu.Unlock()
	now := time.Now()
	if lost, since := c.isLost(now); lost {
		c.lost = since
	} else {
		c.lost = now
	}
	c.followed = false
}

var (
	errRun      = errors.New("it is another run than the one that was followed")
	errSequence = errors.New("invalidations are missing")
	errNothing  = errors.New("an invalidation is of nothing")
)

// apply takes the news of a message, and returns how many answers it ended. After an error the stream must not be followed
// any more.
func (c *cache) apply(message *identityv1.WatchResponse) (int, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if message.GetRun() != c.run {
		return 0, errRun
	}
	ended := 0
	for _, news := range message.GetInvalidations() {
		if news.GetSequence() != c.sequence+1 {
			return ended, fmt.Errorf("%w: %d comes after %d", errSequence, news.GetSequence(), c.sequence)
		}
		d := newDependency(news.GetDependency())
		if d.kind == identityv1.Dependency_KIND_UNSPECIFIED {
			return ended, errNothing
		}
		c.sequence = news.GetSequence()
		c.invalidations.add(c.sequence, d)
		for e := range c.dependents[d] {
			if e.sequence < c.sequence {
				c.entries.Remove(e.key)
				ended++
			}
		}
	}
	if message.GetSequence() != c.sequence {
		return ended, fmt.Errorf("%w: all up to %d should have come, and %d was the last", errSequence, message.GetSequence(), c.sequence)
	}
	c.lastMessage = time.Now()
	return ended, nil
}

// get returns the answer that may be given now.
func (c *cache) get(k key) (*answer, use) {
	now := time.Now()
	c.mu.Lock()
	defer c.mu.Unlock()
	value, ok := c.entries.Get(k)
	if !ok {
		return nil, miss
	}
	e := value.(*entry)
	if e.hasEnded(now) {
		c.entries.Remove(k)
		return nil, miss
	}
	lost, since := c.isLost(now)
	switch {
	case !lost && now.Before(e.freshUntil):
		return e.answer, hit
	case lost && now.Before(since.Add(c.grace)) && e.heldAt(since):
		return e.answer, grace
	}
	// It stays, for grace.
	return nil, miss
}

// isLost reports whether no stream is followed, and since when. It does not rely on the follower to notice in time that
// the stream is silent: the whole process may have been stopped for a while.
func (c *cache) isLost(now time.Time) (bool, time.Time) {
	switch {
	case !c.followed:
		return true, c.lost
	case now.Sub(c.lastMessage) > maxSilence:
		return true, c.lastMessage.Add(maxSilence)
	}
	return false, time.Time{}
}

// put takes the latest answer about a token and keeps it if it may be used again.
func (c *cache) put(k key, a *answer) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if !a.good() {
		c.entries.Remove(k)
		return
	}
	if !c.followed || a.run != c.run {
		return
	}
	c.entries.Remove(k)
	if now := time.Now(); !now.Before(a.freshUntil) || a.hasEnded(now) || c.invalidations.mayConcern(a.dependencies, a.sequence) {
		return
	}
	e := &entry{key: k, answer: a}
	c.entries.Add(k, e)
	for _, d := range a.dependencies {
		if c.dependents[d] == nil {
			c.dependents[d] = map[*entry]struct{}{}
		}
		c.dependents[d][e] = struct{}{}
	}
}

// cacheState is the state of a cache.
type cacheState struct {
	entries int
	// lost is whether no stream is followed, and grace whether answers are used all the same.
	lost, grace bool
	// lastMessage is when the last message came.
	lastMessage time.Time
}

func (c *cache) state(now time.Time) cacheState {
	c.mu.Lock()
	defer c.mu.Unlock()
	lost, since := c.isLost(now)
	return cacheState{
		entries:     c.entries.Len(),
		lost:        lost,
		grace:       lost && now.Before(since.Add(c.grace)),
		lastMessage: c.lastMessage,
	}
}
