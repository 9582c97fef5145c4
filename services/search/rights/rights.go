// Copyright The Tripod Authors.
// SPDX-License-Identifier: Apache-2.0

package rights

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/apiserver/pkg/authentication/user"
	"k8s.io/klog/v2"
	"k8s.io/utils/lru"

	"github.com/tripod-k8s/tripod/services/search/store"
)

// ErrUnread says that nobody knows yet what readers may see.
var ErrUnread = errors.New("the rights of readers were not read from the database yet")

// interval is how old a state may be that decides about a request, and how often Run looks for changes. A search looks by itself, too.
const interval = 100 * time.Millisecond

// maxBytes bounds the RBAC objects of a cluster. They decide nothing if they are larger.
const maxBytes = 64 << 20

// maxReaders bounds the readers in clusters whose grants are kept.
const maxReaders = 10_000

// Rights are those of all readers in all clusters.
type Rights struct {
	store  *store.Store
	state  atomic.Pointer[state]
	grants *lru.Cache

	// looked is when the last look at the store began, in nanoseconds since 1970.
	looked atomic.Int64
	// followers counts those who wait for Changed.
	followers atomic.Int64

	changes sync.Mutex
	// changed is closed and replaced when the state changes.
	changed chan struct{}

	// refreshing is held by whoever reads the store. It guards the fields below.
	refreshing sync.Mutex
	streams    map[int64]*stream
	// touched are clusters whose streams have changed since the state.
	touched map[string]bool
	serial  int64
}

// state is what the store had at a generation. It does not change.
type state struct {
	generation int64
	clusters   map[string]*cluster
	// policies are those of the clusters in the store.
	policies map[string]string
}

// stream has the objects of a stream of RBAC objects.
type stream struct {
	cluster, resource string
	generation        int64
	listed            bool
	objects           map[int64]object
	bytes             int
}

type object struct {
	metav1.Object
	revision int64
	bytes    int
}

// New returns the rights that a store has.
func New(s *store.Store) *Rights {
	return &Rights{store: s, grants: lru.New(maxReaders), changed: make(chan struct{}), streams: map[int64]*stream{}, touched: map[string]bool{}}
}

// Run follows the store until the context ends, as long as somebody waits for Changed. While nobody does, it leaves the database alone.
func (r *Rights) Run(ctx context.Context) {
	wait.UntilWithContext(ctx, func(ctx context.Context) {
		if r.followers.Load() == 0 {
			return
		}
		if err := r.Refresh(ctx); err != nil && ctx.Err() == nil {
			klog.V(2).InfoS("The rights of readers cannot be read", "err", err)
		}
	}, interval)
}

// Follow has Run close what Changed returns, until leave is called.
func (r *Rights) Follow() (leave func()) {
	r.followers.Add(1)
	return func() { r.followers.Add(-1) }
}

// Changed returns a channel that is closed when the rights of any reader may have changed.
func (r *Rights) Changed() <-chan struct{} {
	r.changes.Lock()
	defer r.changes.Unlock()
	return r.changed
}

// Refresh reads the rights that the store has now.
func (r *Rights) Refresh(ctx context.Context) error { return r.refreshSince(ctx, time.Now()) }

// refreshSince reads the rights unless that was begun after a time.
func (r *Rights) refreshSince(ctx context.Context, since time.Time) error {
	r.refreshing.Lock()
	defer r.refreshing.Unlock()
	now := time.Now()
	before := r.state.Load()
	if before != nil {
		if r.looked.Load() >= since.UnixNano() {
			return nil
		}
		generation, err := r.store.RightsGeneration(ctx)
		if err != nil {
			return err
		}
		if generation == before.generation {
			r.looked.Store(now.UnixNano())
			return nil
		}
	}
	var after *state
	err := r.store.ReadRights(ctx, func(from *store.RightsReading) error {
		var err error
		after, err = r.read(ctx, before, from)
		return err
	})
	if err != nil {
		return err
	}
	clear(r.touched)
	r.state.Store(after)
	r.looked.Store(now.UnixNano())
	r.changes.Lock()
	defer r.changes.Unlock()
	close(r.changed)
	r.changed = make(chan struct{})
	return nil
}

// read returns the next state.
func (r *Rights) read(ctx context.Context, before *state, from *store.RightsReading) (*state, error) {
	if before == nil {
		before = &state{}
	}
	there := map[int64]bool{}
	for _, s := range from.Streams {
		if there[s.ID] = true; Resources.Has(s.Resource) {
			if err := r.readStream(ctx, from, s); err != nil {
				return nil, fmt.Errorf("%s of cluster %s: %w", s.Resource, s.Cluster, err)
			}
		}
	}
	maps.DeleteFunc(r.streams, func(id int64, s *stream) bool {
		r.touched[s.cluster] = r.touched[s.cluster] || !there[id]
		return !there[id]
	})
	after := &state{generation: from.Generation, clusters: map[string]*cluster{}, policies: from.Policies}
	for name, policy := range from.Policies {
		if former, known := before.policies[name]; known && former == policy && !r.touched[name] {
			after.clusters[name] = before.clusters[name]
			continue
		}
		after.clusters[name] = r.newCluster(name, policy)
	}
	return after, nil
}

// readStream reads what has changed in a stream.
func (r *Rights) readStream(ctx context.Context, from *store.RightsReading, s store.RightsStream) error {
	mine := r.streams[s.ID]
	if mine == nil {
		mine = &stream{cluster: s.Cluster, resource: s.Resource, objects: map[int64]object{}, generation: -1}
		r.streams[s.ID] = mine
	}
	if mine.generation == s.Generation && mine.listed == s.Listed {
		return nil
	}
	r.touched[s.Cluster] = true
	has := make(map[int64]int64, len(mine.objects))
	for id, o := range mine.objects {
		has[id] = o.revision
	}
	gone, err := from.Changes(ctx, s, has, func(id, revision int64, text []byte) error {
		if mine.remove(id); mine.bytes > maxBytes {
			return nil // newCluster says so
		}
		decoded, err := decode(s.Resource, text)
		if err != nil {
			return err
		}
		mine.objects[id] = object{decoded, revision, len(text)}
		mine.bytes += len(text)
		return nil
	})
	for _, id := range gone {
		mine.remove(id)
	}
	if err == nil {
		mine.generation, mine.listed = s.Generation, s.Listed
	}
	return err
}

func (s *stream) remove(id int64) {
	s.bytes -= s.objects[id].bytes
	delete(s.objects, id)
}

// newCluster returns a cluster with what its streams have. What is wrong with it makes it grant nothing.
func (r *Rights) newCluster(name, policy string) *cluster {
	r.serial++
	who, err := decodePolicy(policy)
	c := newCluster(r.serial, who)
	if err != nil {
		c.unknown = "its policy of rights is wrong: " + err.Error()
	}
	listed, bytes := 0, 0
	for _, s := range r.streams {
		if s.cluster != name {
			continue
		}
		if bytes += s.bytes; s.listed {
			listed++
		}
		for _, o := range s.objects {
			c.add(o.Object)
		}
	}
	switch {
	case c.unknown != "":
	case listed < Resources.Len():
		c.unknown = "its RBAC objects were not all received yet"
	case bytes > maxBytes:
		c.unknown = fmt.Sprintf("its RBAC objects are larger than %d MiB", maxBytes>>20)
	}
	if c.unknown != "" {
		klog.InfoS("The RBAC of a cluster does not count", "cluster", name, "reason", c.unknown)
	}
	return c
}

// Visible returns what a reader may see with a verb by the RBAC of clusters, and by grants of the hub that are about clusters by name.
func (r *Rights) Visible(ctx context.Context, reader user.Info, verb string) (*Visible, error) {
	now, err := r.current(ctx)
	if err != nil {
		return nil, err
	}
	v := &Visible{reader: reader, verb: verb, generation: now.generation, grants: make(map[string]grants, len(now.clusters))}
	if !slices.Contains(Verbs, verb) {
		return v, nil
	}
	for name, c := range now.clusters {
		v.grants[name] = r.grantsOf(ctx, name, c, reader)
		if c.identities != nil && c.policy.Home {
			v.home, v.knowsHub = v.grants[name], c.unknown == ""
		}
	}
	return v, nil
}

// current returns a state that is not older than interval, or the last one if the store is away: then it answers no search either.
func (r *Rights) current(ctx context.Context) (*state, error) {
	oldest := time.Now().Add(-interval)
	if r.looked.Load() < oldest.UnixNano() {
		if err := r.refreshSince(ctx, oldest); err != nil && r.state.Load() == nil {
			return nil, err
		}
	}
	return r.state.Load(), nil
}

// Renew returns what a Visible comes to by the rights that the store has now. What the hub was asked for stays.
func (r *Rights) Renew(ctx context.Context, v *Visible) (*Visible, error) {
	if v.everything {
		return v, nil
	}
	if err := r.Refresh(ctx); err != nil {
		return nil, err
	}
	renewed, err := r.Visible(ctx, v.reader, v.verb)
	if err != nil {
		return nil, err
	}
	renewed.granted = v.granted
	return renewed, nil
}

// readerKey is a reader in a state of a cluster.
type readerKey struct {
	serial int64
	reader string
}

// grantsOf returns what a cluster grants a reader. Nothing is granted where that cannot be told.
func (r *Rights) grantsOf(ctx context.Context, name string, c *cluster, reader user.Info) grants {
	of := readerKey{c.serial, ReaderKey(reader)}
	if already, ok := r.grants.Get(of); ok {
		return already.(grants)
	}
	found, err := c.grantsOf(ctx, reader)
	if err != nil {
		klog.V(2).InfoS("A reader has no rights in a cluster", "cluster", name, "user", reader.GetName(), "err", err)
		return nil
	}
	r.grants.Add(of, found)
	return found
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
