// Copyright The Tripod Authors.
// SPDX-License-Identifier: Apache-2.0

// Package shards spreads work over the replicas that share a database. Each replica increases a number in the database from time to time,
// and watches those of the others. A piece of work is the replica's for which a hash of both is highest (rendezvous hashing). So a replica
// that comes or goes moves only its own share.
//
// Replicas may disagree for some seconds, so two may do the same work. The fences of the store see to it that only one of them writes.
package shards

import (
	"cmp"
	"context"
	"crypto/rand"
	"fmt"
	"os"
	"slices"
	"sync"
	"time"

	"github.com/cespare/xxhash/v2"

	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/klog/v2"

	"github.com/tripod-k8s/tripod/base/broadcast"
	"github.com/tripod-k8s/tripod/services/search/store"
)

// Timing says when replicas are seen and missed.
type Timing struct {
	// Beat is the pause between two signs of life.
	Beat time.Duration
	// FirstLook is how long a new replica looks for others before it takes work. Only a database that has others makes it wait.
	FirstLook time.Duration
	// Dead is how long a replica may give no sign of life until others do its work.
	Dead time.Duration
	// Forget is how long after that its row is removed.
	Forget time.Duration
}

// Standard finds a dead replica within ten seconds.
var Standard = Timing{Beat: 2 * time.Second, FirstLook: 3 * time.Second, Dead: 8 * time.Second, Forget: time.Minute}

// Shards decides which work is a replica's own. A nil Shards is that of a replica that is always alone.
type Shards struct {
	store *store.Store
	self  string
	Timing

	mu sync.Mutex
	// alive are the replicas that share the work, in order. It is nil until the first look is over.
	alive []string
	// changed wakes those that wait for alive to change.
	changed broadcast.Broadcast

	// began is when the replica first saw the others.
	began     time.Time
	sightings map[string]sighting
}

// sighting is what was last seen of a replica. at is zero if it was there before this one, and has not beaten since.
type sighting struct {
	beat int64
	at   time.Time
}

// New returns the shards of the replicas of a store. Nothing is this replica's before Run.
func New(s *store.Store, t Timing) (*Shards, error) {
	host, err := os.Hostname()
	if err != nil {
		return nil, fmt.Errorf("find the host name: %w", err)
	}
	const longest = 200 // the column takes 253
	return &Shards{store: s, self: host[:min(len(host), longest)] + "/" + rand.Text(), Timing: t}, nil
}

// Run gives signs of life, and watches those of others, until the context ends. Then others know at once that this replica is gone.
func (s *Shards) Run(ctx context.Context) {
	wait.UntilWithContext(ctx, s.beat, s.Beat)
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), s.Beat)
	defer cancel()
	if err := s.store.RemoveReplicas(ctx, s.self); err != nil {
		klog.V(2).InfoS("Other replicas will miss this one later", "err", err)
	}
}

func (s *Shards) beat(ctx context.Context) {
	ctx, cancel := context.WithTimeout(ctx, s.Dead)
	defer cancel()
	beats, err := s.store.Beat(ctx, s.self)
	if err != nil {
		klog.V(2).InfoS("Other replicas are not known now", "err", err)
		return
	}
	if gone := s.look(beats, time.Now()); len(gone) > 0 {
		if err := s.store.RemoveReplicas(ctx, gone...); err != nil {
			klog.V(2).InfoS("Replicas that are gone cannot be removed", "err", err)
		}
	}
}

// look notes what was seen of the replicas, and returns those that are gone for long.
func (s *Shards) look(beats map[string]int64, now time.Time) (gone []string) {
	first := s.sightings == nil
	if first {
		s.began = now
	}
	seen := map[string]sighting{}
	alive := []string{s.self}
	undecided := false
	for name, beat := range beats {
		if name == s.self {
			continue
		}
		last, known := s.sightings[name]
		if !first && (!known || last.beat != beat) {
			last.at = now
		}
		last.beat = beat
		seen[name] = last
		switch {
		case last.at.IsZero():
			undecided = true
			if now.Sub(s.began) > s.Forget {
				gone = append(gone, name)
			}
		case now.Sub(last.at) < s.Dead:
			alive = append(alive, name)
		case now.Sub(last.at) > s.Forget:
			gone = append(gone, name)
		}
	}
	s.sightings = seen
	if undecided && now.Sub(s.began) < s.FirstLook {
		return nil
	}
	slices.Sort(alive)
	s.set(alive)
	return gone
}

func (s *Shards) set(alive []string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if slices.Equal(s.alive, alive) {
		return
	}
	klog.InfoS("Replicas share the copying of clusters", "replicas", alive, "self", s.self)
	s.alive = alive
	s.changed.Send()
}

// Changed returns a channel that is closed when work may have changed hands.
func (s *Shards) Changed() <-chan struct{} {
	if s == nil {
		return nil
	}
	return s.changed.Next()
}

// Alone reports whether this replica does everything.
func (s *Shards) Alone() bool {
	if s == nil {
		return true
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	return len(s.alive) == 1
}

// Mine reports whether a piece of work is this replica's.
func (s *Shards) Mine(work string) bool {
	if s == nil {
		return true
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	return len(s.alive) > 0 && ownerOf(work, s.alive) == s.self
}

// ownerOf returns the replica for which the hash is highest.
func ownerOf(work string, replicas []string) string {
	return slices.MaxFunc(replicas, func(a, b string) int { return cmp.Compare(score(work, a), score(work, b)) })
}

func score(work, replica string) uint64 { return xxhash.Sum64String(replica + "\x00" + work) }
