// Copyright The Tripod Authors.
// SPDX-License-Identifier: Apache-2.0

package rights

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"sort"
	"sync"
	"sync/atomic"
	"time"

	"github.com/tripod-k8s/tripod/services/search/parties"
)

// pool is the memory of the RBAC objects of all clusters. If they take too much, clusters give way that take more than they may, namespace
// by namespace, the largest first: a cluster that lies must close no other, and a user who may write Roles somewhere must close nothing
// else. Parties share the memory, and the clusters of a party what that has: see bounds. So many clusters of one author close no others.
// Of the party that takes most, the cluster is first that takes most together with its largest namespace, which counts twice so.
// ClusterRoles and ClusterRoleBindings are closed, with their cluster, only if they alone are too much.
type pool struct {
	rights *Rights

	mu   sync.Mutex
	used int
	of   map[*clusterRights]taken
	// awaited is a member that is being read and makes room with its next object, or nil, and asOf was used when it was chosen. Other members
	// that read an object need not compare all members again.
	awaited *clusterRights
	asOf    int
}

// taken is what a member takes: all, its ClusterRoles and ClusterRoleBindings, and its largest namespace, or more than that.
type taken struct {
	all, wide, largest int
	// id is larger for clusters that are newer. home is set for the cluster that search is part of, which is the last to give way.
	party parties.Party
	id    int64
	home  bool
}

// recheckParts is the part of the memory that may be taken until members are compared again.
const recheckParts = 256

// steps is in how many steps the memory of all clusters would be closed. A step closes at least one namespace.
const steps = 64

// keptShare is the part of the memory that stays with the oldest clusters when new ones come, and keptOfParty the part of all that one
// party may have of that.
const keptShare, keptOfParty = 2, 4

// place is what a member has of the pool.
type place struct {
	*pool
	// own is locked while the objects of the member change.
	own sync.Mutex
	// party and home are as in taken. Only who has locked own uses them.
	party parties.Party
	home  bool
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
		p.of[m] = taken{
			all: all, wide: m.used[clusterWide], largest: m.most, party: m.party, id: m.clusterID, home: m.home,
		}
	}
}

// candidate is a member that may have to give way.
type candidate struct {
	taken
	member *clusterRights
	bounds
	// of is its party.
	of *share
}

// bounds are those of a member or a party. kept is what it may have, however many come later. It may have to give way if it has more than
// may, which is kept or seven eighths of an equal share. If it has less than most, all that is closed of others is enough.
type bounds struct{ kept, may, most int }

// share is what a party takes and may have.
type share struct {
	members []*candidate
	all     int
	bounds
	// counts decides which party is first.
	counts int
}

// isWide reports whether the ClusterRoles and ClusterRoleBindings give way.
func (c *candidate) isWide() bool { return c.wide > c.bounds.most }

// counts decides which member of a party is first.
func (c *candidate) counts() int {
	if c.isWide() {
		return c.all + max(c.largest, c.wide)
	}
	return c.all + c.largest
}

// free is how much has to be closed of a member at a time.
func (c *candidate) free(limit int) int { return min(c.all-c.may, limit/steps) }

// over returns by how much all members together take too much, and then those that may have to give way, the first one first.
func (p *pool) over(limit int) (bytes int, candidates []*candidate) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.used <= limit {
		return 0, nil
	}
	parties := p.parties(limit)
	limitAll(limit, limit-limit/8, parties, func(s *share) (int, *bounds) { return s.all, &s.bounds })
	for _, s := range parties {
		if s.all <= s.may {
			continue
		}
		limitAll(s.most, s.may, s.members, func(c *candidate) (int, *bounds) { return c.all, &c.bounds })
		for _, c := range s.members {
			if c.all > c.may && (c.isWide() || c.all > c.wide) {
				s.counts = max(s.counts, s.all+c.counts()-c.all)
				candidates = append(candidates, c)
			}
		}
	}
	slices.SortFunc(candidates, func(a, b *candidate) int {
		if a.home != b.home {
			return cmp.Compare(home(a), home(b))
		}
		return cmp.Or(cmp.Compare(b.of.counts, a.of.counts), cmp.Compare(b.counts(), a.counts()), cmp.Compare(a.member.name, b.member.name))
	})
	return p.used - limit, candidates
}

// parties returns what parties take, and what is kept for clusters that were there first. The caller has locked the pool.
func (p *pool) parties(limit int) (all []*share) {
	members := make([]*candidate, 0, len(p.of))
	for m, t := range p.of {
		members = append(members, &candidate{member: m, taken: t})
	}
	slices.SortFunc(members, func(a, b *candidate) int {
		return cmp.Or(cmp.Compare(a.id, b.id), cmp.Compare(a.member.name, b.member.name))
	})
	names := map[parties.Party]*share{}
	rest := limit / keptShare
	for _, c := range members {
		of := names[c.party]
		if of == nil {
			of = &share{}
			names[c.party], all = of, append(all, of)
		}
		c.of = of
		c.kept = min(c.all, rest, limit/keptOfParty-of.kept)
		rest -= c.kept
		of.members, of.all, of.kept = append(of.members, c), of.all+c.all, of.kept+c.kept
	}
	return all
}

// limitAll sets the bounds of those that share a limit. None has to give way that has an equal part of least.
func limitAll[T any](limit, least int, all []T, of func(T) (takes int, _ *bounds)) {
	// Who takes less leaves the rest to others. This is the most that the others may have then.
	level := sort.Search(limit+1, func(level int) bool {
		sum := 0
		for _, one := range all {
			takes, b := of(one)
			sum += min(takes, max(b.kept, level))
		}
		return sum > limit
	}) - 1
	for _, one := range all {
		_, b := of(one)
		b.may, b.most = max(b.kept, min(level, least/len(all))), max(b.kept, level)
	}
}

func home(c *candidate) int {
	if c.home {
		return 1
	}
	return 0
}

// looks reports whether a reader, or who has read, has to compare members.
func (p *pool) looks(reader *clusterRights, limit int) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.used <= limit {
		return false
	}
	if reader != nil && p.awaited != nil && p.awaited != reader && p.used <= p.asOf+limit/recheckParts {
		return false
	}
	p.awaited = nil
	return true
}

// await has others wait for the first of some candidates.
func (p *pool) await(candidates []*candidate) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.awaited, p.asOf = nil, p.used; len(candidates) > 0 {
		p.awaited = candidates[0].member
	}
}

// makeRoom closes what has to give way if all clusters together have too much. reader is the member that is being read, whose own is
// locked, or nil.
func (p *pool) makeRoom(reader *clusterRights) {
	limit := p.rights.limits.all
	if !p.looks(reader, limit) {
		return
	}
	locked, shown := map[*clusterRights]bool{}, map[*clusterRights]bool{}
	if reader != nil {
		locked[reader] = true
	}
	for {
		over, candidates := p.over(limit)
		i := slices.IndexFunc(candidates, func(c *candidate) bool { return locked[c.member] || c.member.own.TryLock() })
		if i < 0 {
			p.await(candidates)
			break
		}
		first := candidates[i]
		locked[first.member] = true
		// One that is being read makes room with its next object, or after that. Others close in its place only if an eighth too much is taken
		// until then.
		if i > 0 && over <= limit/8 {
			p.await(candidates)
			break
		}
		if first.member.giveWay(first.isWide(), first.free(limit)) {
			shown[first.member] = true
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
	r.changed.Send()
}

// pause is how long what is closed stays so.
func (m *clusterRights) pause() time.Duration {
	if m.gaveWay.Load() {
		return max(m.limits.pause, m.limits.pauseOfAll)
	}
	return m.limits.pause
}
