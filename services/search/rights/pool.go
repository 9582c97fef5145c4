// Copyright The Tripod Authors.
// SPDX-License-Identifier: Apache-2.0

package rights

import (
	"cmp"
	"fmt"
	"maps"
	"sync"
	"sync/atomic"
	"time"
)

// pool is the memory of the RBAC objects of all clusters. If they take too much, the cluster that takes most is closed: who may write Roles
// somewhere, or adds clusters, must not close others.
type pool struct {
	rights *Rights

	mu   sync.Mutex
	used int
	of   map[*member]int
}

// place is what a member has of the pool.
type place struct {
	*pool
	// own is locked while the objects of the member change.
	own sync.Mutex
	// home is set for the cluster that search is part of, which is the last to give way.
	home atomic.Bool
	// givesWay is set while the member is closed because it has most, or is to be.
	givesWay atomic.Bool
}

func (p *pool) add(m *member, bytes int) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.used += bytes
	if p.of[m] += bytes; p.of[m] == 0 {
		delete(p.of, m)
	}
}

// largest returns the member that has to give way, or nil if all have room.
func (p *pool) largest(most int) (largest *member) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.used <= most {
		return nil
	}
	before := func(m *member) int { // those that give way already come last
		if m.givesWay.Load() || m.home.Load() {
			return 1
		}
		return 0
	}
	for m := range p.of {
		if largest == nil || cmp.Or(cmp.Compare(before(m), before(largest)), cmp.Compare(p.of[largest], p.of[m]),
			cmp.Compare(m.name, largest.name)) < 0 {
			largest = m
		}
	}
	return largest
}

// makeRoomOfAll closes the clusters with most while all of them have too much. The caller has locked m.own.
func (m *member) makeRoomOfAll() {
	for {
		largest := m.largest(m.limits.all)
		switch {
		case largest == nil:
			return
		case largest == m:
			m.giveWay()
			return
		case largest.givesWay.Swap(true) || !largest.own.TryLock():
			return // it is being read, and closes itself with its next object
		}
		largest.giveWay()
		m.rights.show(largest)
		largest.own.Unlock()
	}
}

// giveWay closes a cluster. The caller has locked own.
func (m *member) giveWay() {
	m.givesWay.Store(true)
	m.close(fmt.Sprintf("the RBAC objects of all clusters take more than %d KiB, and this cluster has most", m.limits.all>>10), clusterWide)
	m.whole = time.Now()
}

// show has readers see that a cluster was closed that is not being read.
func (r *Rights) show(m *member) {
	before := m.state.Load()
	if before == nil {
		return
	}
	state := newCluster(r.serial.Add(1), before.identities)
	state.generation, state.began, state.recheck = before.generation, time.Now(), true
	state.closed, state.tooLarge, state.unknown = maps.Clone(m.closed), maps.Clone(m.closed), m.closed[clusterWide]
	state.log(m.name, before)
	m.state.Store(state)
	r.countClosed()
	r.grants.replace(m.name, state.serial)
	r.tell()
}

// pause is how long what is closed stays so.
func (m *member) pause() time.Duration {
	if m.givesWay.Load() {
		return max(m.limits.pause, m.limits.pauseOfAll)
	}
	return m.limits.pause
}
