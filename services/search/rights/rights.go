// Copyright The Tripod Authors.
// SPDX-License-Identifier: Apache-2.0

package rights

import (
	"context"
	"errors"
	"maps"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"golang.org/x/sync/singleflight"

	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/apimachinery/pkg/util/waitgroup"
	"k8s.io/apiserver/pkg/authentication/user"
	"k8s.io/klog/v2"

	"github.com/tripod-k8s/tripod/base/broadcast"
	"github.com/tripod-k8s/tripod/services/search/parties"
	"github.com/tripod-k8s/tripod/services/search/store"
	"github.com/tripod-k8s/tripod/services/search/store/access"
)

// ErrUnread means that the rights of readers cannot be read. It names no cluster: readers get it.
var ErrUnread = errors.New("the rights of readers cannot be read now: try again later")

// errClosed means that the rights are closed.
var errClosed = errors.New("search stops")

const (
	// interval is how old the list of generations may be that decides about a request, and how often Run looks for changes. A search looks by
	// itself, too. It is also how long a request waits for the changed rights of a cluster that it does not name.
	interval = 100 * time.Millisecond
	// recent is how old the rights of a cluster are at most that changes all the time, for requests that do not name it. These do not wait for
	// it then.
	recent = time.Second
	// firstWait is how long a request waits for rights that this replica has not read since its start.
	firstWait = 5 * time.Second
)

// The memory of a process, in bytes: of the RBAC objects of all clusters, and of the grants that are kept of readers.
const (
	Memory       = 96 << 20
	GrantsMemory = maxGrants * bytesOfGrant
)

// maxGrants bounds the grants that are kept, of all readers in all clusters.
const maxGrants = 1_000_000

// Rights are those of all readers in all clusters.
type Rights struct {
	store  *store.Store
	grants *cache
	limits limits
	index  atomic.Pointer[index]
	serial atomic.Int64

	// looks and reads let all who wait share what one of them asks the store: the generations of all clusters, and the rights of one.
	looks, reads singleflight.Group
	// working are the goroutines of looks and reads, and those they start. They may outlive the request that has started them: their context
	// is work, which Close ends.
	working waitgroup.SafeWaitGroup
	work    context.Context
	endWork context.CancelFunc
	// slots bounds how many clusters are read at a time.
	slots chan struct{}

	mu      sync.Mutex
	members map[string]*clusterRights
	// pool is the memory of all of them.
	pool *pool

	// followers counts those who wait for Changed.
	followers atomic.Int64
	changed   broadcast.Broadcast
}

// index is which rights the store had at a moment.
type index struct {
	access.RightsIndex
	began time.Time
}

// New returns the rights that a store has. Close them before the store.
func New(s *store.Store) *Rights {
	const readsAtOnce = 4
	r := &Rights{
		store: s, grants: newCache(maxGrants), limits: defaultLimits, slots: make(chan struct{}, readsAtOnce),
		members: map[string]*clusterRights{},
	}
	r.work, r.endWork = context.WithCancel(context.Background())
	r.pool = &pool{rights: r, of: map[*clusterRights]taken{}}
	return r
}

// Close ends what goes on in the store, and waits for it. Nothing uses the store after that.
func (r *Rights) Close() {
	r.endWork()
	r.working.Wait()
}

// owned returns a function that Close waits for, and that does nothing once the rights are closed.
func (r *Rights) owned(do func(context.Context) error) func() (any, error) {
	return func() (any, error) {
		if r.working.Add(1) != nil {
			return nil, errClosed
		}
		defer r.working.Done()
		return nil, do(r.work)
	}
}

// Run follows the store until the context ends, as long as a goroutine waits for Changed. While none does, it leaves the database alone.
func (r *Rights) Run(ctx context.Context) {
	wait.UntilWithContext(ctx, func(ctx context.Context) {
		if r.followers.Load() == 0 {
			return
		}
		now, err := r.look(ctx, time.Now())
		if err != nil {
			if ctx.Err() == nil {
				klog.V(2).InfoS("The rights of readers cannot be read", "err", err)
			}
			return
		}
		r.begin(now) // a cluster that takes its time holds up no other one
	}, interval)
}

// Follow has Run close what Changed returns, until leave is called.
func (r *Rights) Follow() (leave func()) {
	r.followers.Add(1)
	return func() { r.followers.Add(-1) }
}

// Changed returns a channel that is closed when the rights of any reader may have changed.
func (r *Rights) Changed() <-chan struct{} { return r.changed.Next() }

// Refresh reads the rights that the store has now, of all clusters.
func (r *Rights) Refresh(ctx context.Context) error {
	now, err := r.look(ctx, time.Now())
	if err != nil {
		return err
	}
	for _, m := range r.begin(now) {
		r.await(ctx, m, now)
	}
	return ctx.Err()
}

// look returns the generations of all clusters, as the store had them after a moment.
func (r *Rights) look(ctx context.Context, since time.Time) (*index, error) {
	for {
		if now := r.index.Load(); now != nil && !now.began.Before(since) {
			return now, nil
		}
		look := r.looks.DoChan("", r.owned(func(ctx context.Context) (err error) {
			now := &index{began: time.Now()}
			if now.RightsIndex, err = r.store.RightsIndex(ctx); err == nil {
				r.take(now)
			}
			return err
		}))
		select {
		case <-ctx.Done():
			return nil, ctx.Err()
		case done := <-look:
			if done.Err != nil {
				return nil, done.Err
			}
		}
	}
}

// take makes what the store has the rights of this replica.
func (r *Rights) take(now *index) {
	r.mu.Lock()
	gone := 0
	for name, m := range r.members {
		if _, has := now.Generations[name]; !has {
			delete(r.members, name)
			r.forget(m)
			r.grants.replace(name, 0)
			gone++
		}
	}
	for name := range now.Generations {
		if r.members[name] == nil {
			r.members[name] = &clusterRights{name: name, limits: r.limits, place: place{pool: r.pool, party: parties.OfCluster(name)}}
		}
	}
	r.mu.Unlock()
	r.index.Store(now)
	if gone > 0 {
		r.countClosed()
		r.changed.Send()
	}
}

// forget gives back the memory of a cluster that is gone. It may be being read now.
func (r *Rights) forget(m *clusterRights) {
	if r.working.Add(1) != nil {
		return
	}
	go func() {
		defer r.working.Done()
		m.own.Lock()
		defer m.own.Unlock()
		m.forget()
	}()
}

// begin begins to read the clusters that have changed since they were read, and returns these.
func (r *Rights) begin(now *index) (behind []*clusterRights) {
	for _, m := range r.all() {
		if !m.isOf(now) {
			behind = append(behind, m)
			r.beginRead(m)
		}
	}
	return behind
}

// beginRead begins to read a cluster, unless it is being read.
func (r *Rights) beginRead(m *clusterRights) <-chan singleflight.Result {
	return r.reads.DoChan(m.name, r.owned(func(ctx context.Context) error { return r.read(ctx, m) }))
}

// has reports whether a member is one that the store has, as far as this process knows.
func (r *Rights) has(m *clusterRights) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.members[m.name] == m
}

func (r *Rights) all() []*clusterRights {
	r.mu.Lock()
	defer r.mu.Unlock()
	return slices.Collect(maps.Values(r.members))
}

// await returns when a cluster is as the store has it, when it cannot be read, or when the context ends.
func (r *Rights) await(ctx context.Context, m *clusterRights, now *index) {
	for ctx.Err() == nil && !m.isOf(now) {
		select {
		case <-ctx.Done():
		case done := <-r.beginRead(m):
			if done.Err != nil {
				if r.work.Err() == nil {
					klog.ErrorS(done.Err, "The RBAC of a cluster cannot be read", "cluster", m.name)
				}
				return
			}
		}
	}
}

// AccessSet returns what a reader may read with a verb by the RBAC of clusters, and by grants of the hub that are about clusters by name.
// If clusters are named, it is by their rights as they are now. Those of other clusters may be as old as [recent].
func (r *Rights) AccessSet(ctx context.Context, reader user.Info, verb string, clusters ...string) (*AccessSet, error) {
	now, err := r.look(ctx, time.Now().Add(-interval))
	if err != nil {
		if now = r.index.Load(); now == nil || ctx.Err() != nil { // if the store is away, it answers no search either
			klog.V(2).InfoS("The rights of readers cannot be read", "err", err)
			return nil, ErrUnread
		}
	}
	r.catchUp(ctx, now, func(m *clusterRights) bool { return slices.Contains(clusters, m.name) })
	return r.accessSet(now, reader, verb), nil
}

// catchUp waits for clusters that have changed: as long as it takes for those that are needed, and for others a moment.
func (r *Rights) catchUp(ctx context.Context, now *index, needed func(*clusterRights) bool) {
	behind := r.begin(now)
	if len(behind) == 0 {
		return
	}
	soon, cancel := context.WithTimeout(ctx, interval)
	defer cancel()
	first, cancel := context.WithTimeout(ctx, firstWait)
	defer cancel()
	for _, m := range behind {
		state := m.state.Load()
		switch {
		case needed(m) || state != nil && state.isHome():
			r.await(ctx, m, now)
		case state == nil:
			r.await(first, m, now)
		case now.began.Sub(state.began) > recent:
			r.await(soon, m, now)
		}
	}
}

// accessSet returns what a reader may read by the rights that were read.
func (r *Rights) accessSet(now *index, reader user.Info, verb string) *AccessSet {
	v := &AccessSet{reader: reader, verb: verb, asOf: now.Changed}
	if !slices.Contains(Verbs, verb) {
		return v
	}
	key := ReaderKey(reader)
	v.states = make(map[string]*cluster, len(now.Generations))
	v.evaluate = func(name string, state *cluster) grants { return r.grantsOf(name, state, reader, key) }
	for _, m := range r.all() {
		state := m.state.Load()
		if !m.isOf(now) {
			if v.asOf = -1; state == nil || now.began.Sub(state.began) > recent {
				v.behind = append(v.behind, m.name)
			}
		}
		if state == nil {
			continue
		}
		if v.states[m.name] = state; state.isHome() {
			v.home, v.hub, v.knowsHub = m.name, v.grants(m.name), state.unknown == ""
		}
	}
	return v
}

// Renew returns what an AccessSet comes to by the rights that the store has now, where it has allowed something. What the hub was asked for
// stays.
func (r *Rights) Renew(ctx context.Context, v *AccessSet) (*AccessSet, error) {
	if v.unlimited {
		return v, nil
	}
	now, err := r.look(ctx, time.Now())
	if err != nil {
		return nil, err
	}
	for _, m := range r.begin(now) {
		if state := m.state.Load(); len(v.grants(m.name)) > 0 || state != nil && state.isHome() {
			r.await(ctx, m, now)
		}
	}
	renewed := r.accessSet(now, v.reader, v.verb)
	renewed.granted = v.granted
	return renewed, nil
}

// HomeGeneration returns the generation of the rights of the hub, as far as they were read.
func (r *Rights) HomeGeneration() int64 {
	for _, m := range r.all() {
		if state := m.state.Load(); state != nil && state.isHome() {
			return state.generation
		}
	}
	return 0
}

// evaluationTime bounds what it takes to find out who a reader is in a cluster.
const evaluationTime = time.Second

// pauseOfTimeout is how long a reader has no rights in a cluster after it took too long to find out.
const pauseOfTimeout = 10 * time.Second

// grantsOf returns what a cluster grants a reader. Nothing is granted where that cannot be determined.
func (r *Rights) grantsOf(name string, c *cluster, reader user.Info, key string) grants {
	if already, ok := r.grants.get(name, key, c.serial); ok {
		return already
	}
	ctx, cancel := context.WithTimeout(context.Background(), evaluationTime)
	defer cancel()
	found, err := c.grantsOf(ctx, reader)
	one := cached{cluster: name, reader: key, serial: c.serial, grants: found}
	if err != nil { // which another try would meet, too
		klog.V(2).InfoS("A reader has no rights in a cluster", "cluster", name, "user", reader.GetName(), "err", err)
		if one.grants = nil; ctx.Err() != nil { // perhaps because the machine is busy
			one.until = time.Now().Add(pauseOfTimeout)
		}
	}
	r.grants.add(one)
	return one.grants
}

// ReaderKey returns the same text for equal readers only.
func ReaderKey(reader user.Info) string {
	var text strings.Builder
	add := func(values ...string) {
		text.WriteString(strconv.Itoa(len(values)))
		for _, value := range values {
			text.WriteString(strconv.Quote(value))
		}
	}
	add(reader.GetName(), reader.GetUID())
	add(slices.Sorted(slices.Values(reader.GetGroups()))...)
	for _, name := range slices.Sorted(maps.Keys(reader.GetExtra())) {
		add(name)
		add(reader.GetExtra()[name]...)
	}
	return text.String()
}
