// Copyright The Tripod Authors.
// SPDX-License-Identifier: Apache-2.0

package rights

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"sync"
	"sync/atomic"
	"time"
)

// pool is the memory of the RBAC objects of all clusters. If they take too much, clusters give way that take more than an equal share,
// namespace by namespace, the largest first: a cluster that lies must close no other. Of these clusters, the one is first that takes most
// together with its largest namespace, which counts twice so: who may write Roles somewhere must close nothing else. ClusterRoles and
// ClusterRoleBindings are closed last, with their cluster, unless they are most of what it has.
type pool struct {
	rights *Rights

	mu   sync.Mutex
	used int
	of   map[*clusterRights]taken
}

// taken is what a member takes: all, its ClusterRoles and ClusterRoleBindings, and its largest namespace, or more than that.
type taken struct{ all, wide, most int }

// steps is in how many steps the memory of all clusters would be closed. A step closes at least one namespace.
const steps = 64

// place is what a member has of the pool.
type place struct {
	*pool
	// own is locked while the objects of the member change.
	own sync.Mutex
	// home is set for the cluster that search is part of, which is the last to give way.
	home atomic.Bool
	// gaveWay is set while something of the member is closed because it had most.
	gaveWay atomic.Bool
}

// add counts memory of a member.
func (p *pool) add(m *clusterRights, bytes int) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.used += bytes
	if all := p.of[m].all + bytes; all == 0 {
		delete(p.of, m)
	} else {
		p.of[m] = taken{all: all, wide: m.used[clusterWide], most: m.most}
	}
}

// candidate is a member that may have to give way. wide is set if its ClusterRoles and ClusterRoleBindings do. counts is what decides which
// of them is first. One with last is after all others.
type candidate struct {
	*clusterRights
	wide bool

	last, counts int
}

// over returns by how much all members together take too much, and then those that may have to give way, the first one first.
func (p *pool) over(limit int) (bytes int, candidates []candidate) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.used <= limit {
		return 0, nil
	}
	share := limit / len(p.of)
	for m, t := range p.of {
		c := candidate{clusterRights: m, counts: t.all + t.most}
		if m.home.Load() {
			c.last = 1
		}
		if t.wide > t.all/2 {
			c.wide, c.counts = true, t.all+max(t.most, t.wide)
		}
		if t.all > share {
			candidates = append(candidates, c)
		}
	}
	slices.SortFunc(candidates, func(a, b candidate) int {
		return cmp.Or(cmp.Compare(a.last, b.last), cmp.Compare(b.counts, a.counts), cmp.Compare(a.name, b.name))
	})
	return p.used - limit, candidates
}

// makeRoom closes what has to give way if all clusters together have too much, until an eighth is free again. reader is the member that is
// being read, whose own is locked, or nil.
func (p *pool) makeRoom(reader *clusterRights) {
	limit := p.rights.limits.all
	if over, _ := p.over(limit); over == 0 {
		return
	}
	locked, shown := map[*clusterRights]bool{}, map[*clusterRights]bool{}
	if reader != nil {
		locked[reader] = true
	}
	for {
		over, candidates := p.over(limit - limit/8)
		i := slices.IndexFunc(candidates, func(c candidate) bool { return locked[c.clusterRights] || c.own.TryLock() })
		if i < 0 {
			break
		}
		first := candidates[i]
		locked[first.clusterRights] = true
		// One that is being read makes room with its next object, or after that. Others close in its place only if an eighth too much is taken
		// until then.
		if i > 0 && over <= limit/4 {
			break
		}
		if first.giveWay(first.wide, min(over, limit/steps)) {
			shown[first.clusterRights] = true
		}
	}
	delete(locked, reader) // who reads it does the rest
	for other := range locked {
		if shown[other] {
			p.rights.show(other)
		}
		other.own.Unlock()
	}
}

// giveWay closes the largest namespaces of a member until some bytes are free, or the cluster. It closes nothing, and returns false, if the
// member has less than was thought. The caller has locked own.
func (m *clusterRights) giveWay(wide bool, bytes int) bool {
	names := slices.Collect(maps.Keys(m.used))
	names = slices.DeleteFunc(names, func(name string) bool { return name == clusterWide })
	slices.SortFunc(names, func(a, b string) int { return cmp.Or(cmp.Compare(m.used[b], m.used[a]), cmp.Compare(a, b)) })
	thought := m.most
	if m.most = 0; len(names) > 0 {
		m.most = m.used[names[0]]
	}
	m.add(m, 0)
	if m.most < thought || len(m.used) == 0 { // the latter was forgotten since it was chosen
		return false
	}
	last, what := 0, "this namespace"
	if wide || len(names) == 0 {
		names, last, what = []string{clusterWide}, 1, "this cluster"
	}
	for free := 0; last < len(names) && free < bytes; last++ {
		free += m.used[names[last]]
	}
	m.gaveWay.Store(true)
	why := fmt.Sprintf("the RBAC objects of all clusters take more than %d KiB, and %s has most", m.rights.limits.all>>10, what)
	m.close(why, names[:last]...)
	m.whole = time.Now()
	return true
}

// show has readers see that something was closed in a cluster that is not being read.
func (r *Rights) show(m *clusterRights) {
	before := m.state.Load()
	if before == nil {
		return
	}
	state := newCluster(r.serial.Add(1), before.identities)
	state.generation, state.began, state.recheck = before.generation, time.Now(), true
	m.fillWith(state, before.unknown)
	state.log(m.name, before)
	m.state.Store(state)
	r.countClosed()
	r.grants.replace(m.name, state.serial)
	r.notify()
}

// pause is how long what is closed stays so.
func (m *clusterRights) pause() time.Duration {
	if m.gaveWay.Load() {
		return max(m.limits.pause, m.limits.pauseOfAll)
	}
	return m.limits.pause
}
