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

// pool is the memory of the RBAC objects of all clusters. If they take too much, the namespace that takes most is closed, of whatever
// cluster it is: who may write Roles somewhere must close nothing else. The ClusterRoles and ClusterRoleBindings of a cluster count like a
// namespace here, and close the cluster.
type pool struct {
	rights *Rights

	mu   sync.Mutex
	used int
	of   map[*member]taken
}

// taken is what a member takes: all, and the most of a namespace, or more than that.
type taken struct{ all, most int }

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

// add counts memory of a member, whose namespaces take this much at most.
func (p *pool) add(m *member, bytes, most int) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.used += bytes
	if all := p.of[m].all + bytes; all == 0 {
		delete(p.of, m)
	} else {
		p.of[m] = taken{all, most}
	}
}

// over returns by how much all members together take too much, and then all members, the one that has to give way first.
func (p *pool) over(limit int) (bytes int, members []*member) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.used <= limit {
		return 0, nil
	}
	last := func(m *member) int {
		if m.home.Load() {
			return 1
		}
		return 0
	}
	return p.used - limit, slices.SortedFunc(maps.Keys(p.of), func(a, b *member) int {
		return cmp.Or(cmp.Compare(last(a), last(b)), cmp.Compare(p.of[b].most, p.of[a].most), cmp.Compare(a.name, b.name))
	})
}

// makeRoomOfAll closes the namespaces with most if all clusters together have too much, until an eighth is free again. The caller has
// locked m.own.
func (m *member) makeRoomOfAll() {
	if over, _ := m.over(m.limits.all); over == 0 {
		return
	}
	locked, shown := map[*member]bool{m: true}, map[*member]bool{}
	for {
		over, members := m.over(m.limits.all - m.limits.all/8)
		i := slices.IndexFunc(members, func(largest *member) bool { return locked[largest] || largest.own.TryLock() })
		if i < 0 {
			break
		}
		locked[members[i]] = true
		// One that is being read makes room at the end of that. Others close in its place only if an eighth too much is taken until then.
		if i > 0 && over <= m.limits.all/4 {
			break
		}
		if members[i].giveWay() {
			shown[members[i]] = true
		}
	}
	delete(locked, m) // its reader does the rest
	for other := range locked {
		if shown[other] {
			m.rights.show(other)
		}
		other.own.Unlock()
	}
}

// giveWay closes the namespace with most, or the cluster if its ClusterRoles and ClusterRoleBindings take most. It closes nothing, and
// returns false, if the member has less than was thought. The caller has locked own.
func (m *member) giveWay() bool {
	thought, most := m.most, clusterWide
	m.most = 0
	for namespace, bytes := range m.used {
		if bytes > m.most || bytes == m.most && namespace < most {
			m.most, most = bytes, namespace
		}
	}
	m.add(m, 0, m.most)
	if m.most < thought || m.most == 0 { // the latter was forgotten since it was chosen
		return false
	}
	m.gaveWay.Store(true)
	what := "this namespace"
	if most == clusterWide {
		what = "this cluster"
	}
	m.close(fmt.Sprintf("the RBAC objects of all clusters take more than %d KiB, and %s has most", m.limits.all>>10, what), most)
	m.whole = time.Now()
	return true
}

// show has readers see that something was closed in a cluster that is not being read.
func (r *Rights) show(m *member) {
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
	r.tell()
}

// pause is how long what is closed stays so.
func (m *member) pause() time.Duration {
	if m.gaveWay.Load() {
		return max(m.limits.pause, m.limits.pauseOfAll)
	}
	return m.limits.pause
}
