// Copyright The Tripod Authors.
// SPDX-License-Identifier: Apache-2.0

package store

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/tripod-k8s/tripod/services/search/apis/search/v1beta1"
	"github.com/tripod-k8s/tripod/services/search/query"
	"github.com/tripod-k8s/tripod/services/search/store/access"
	"github.com/tripod-k8s/tripod/services/search/store/database"
	"github.com/tripod-k8s/tripod/services/search/store/history"
	"github.com/tripod-k8s/tripod/services/search/store/objectjson"
	"github.com/tripod-k8s/tripod/services/search/store/streams"
)

// world has clusters that change at random, and remembers each of their states.
type world struct {
	t       *testing.T
	s       *Store
	r       *rand.Rand
	streams map[string]*streams.Stream
	has     map[string]known
	version int
	states  []state
	// since has the revisions of clusters that are there, and namespaces those of the namespaces of east, the only cluster that copies these.
	since, namespaces map[string]int64
}

// state is what there was from a revision on.
type state struct {
	revision int64
	at       time.Time
	objects  []known
}

var worldKinds = []streams.Kind{deployments, replicaSets, pods}

func newWorld(t *testing.T, s *Store, r *rand.Rand) *world {
	w := &world{t: t, s: s, r: r, streams: map[string]*streams.Stream{}, has: map[string]known{}, since: map[string]int64{}, namespaces: map[string]int64{}}
	for _, kind := range worldKinds { // IDs of kinds are in this order, and no kind goes away
		openStream(t, s, "steady", kind)
	}
	w.remember()
	return w
}

// remember notes the state that there is now. Times of commits are made up: a second for each state.
func (w *world) remember() {
	w.t.Helper()
	revision, err := w.s.Revision(w.t.Context())
	require.NoError(w.t, err)
	at := time.Unix(2_000_000_000+int64(len(w.states)), 0)
	set := database.SQL(w.s.db, "UPDATE changes SET committed_at = ? WHERE revision > ?", at.UnixMilli(), w.last().revision)
	_, err = w.s.db.Writer().Exec(set.Text(), set.Values()...)
	require.NoError(w.t, err)
	w.states = append(w.states, state{revision, at, slices.Collect(maps.Values(w.has))})
}

func (w *world) last() state {
	if len(w.states) == 0 {
		return state{revision: -1}
	}
	return w.states[len(w.states)-1]
}

// change does something, and remembers what comes of it.
func (w *world) change() {
	w.t.Helper()
	cluster, kind := pick(w.r, []string{"east", "north", "west"}), pick(w.r, worldKinds)
	key := cluster + " " + kind.Resource
	gone := func(gone func(known) bool) {
		maps.DeleteFunc(w.has, func(_ string, o known) bool { return gone(o) })
	}
	switch w.r.IntN(30) {
	case 0:
		require.NoError(w.t, w.s.RemoveCluster(w.t.Context(), cluster))
		maps.DeleteFunc(w.streams, func(key string, _ *streams.Stream) bool { return strings.HasPrefix(key, cluster+" ") })
		if delete(w.since, cluster); cluster == "east" {
			clear(w.namespaces)
		}
		gone(func(o known) bool { return o.cluster == cluster })
	case 1:
		if stream := w.streams[key]; stream != nil {
			require.NoError(w.t, w.s.CloseStream(w.t.Context(), stream))
			delete(w.streams, key)
			gone(func(o known) bool { return o.cluster == cluster && o.kind.Resource == kind.Resource })
		}
	case 2, 3, 4:
		w.renewNamespace()
	default:
		w.write(w.stream(cluster, kind), cluster, kind)
	}
	w.remember()
}

func (w *world) stream(cluster string, kind streams.Kind) *streams.Stream {
	w.t.Helper()
	if _, has := w.since[cluster]; !has {
		var err error
		w.since[cluster], err = w.s.Revision(w.t.Context())
		require.NoError(w.t, err)
	}
	key := cluster + " " + kind.Resource
	if w.streams[key] == nil {
		w.streams[key] = openStream(w.t, w.s, cluster, kind)
	}
	return w.streams[key]
}

var namespacesKind = streams.Kind{GroupVersionResource: streams.NamespacesResource, Name: "Namespace"}

// renewNamespace makes a namespace of east another one of the same name.
func (w *world) renewNamespace() {
	w.t.Helper()
	name := pick(w.r, []string{"default", "kube-system", "team_a", "Team", "teamXa", "TEAM"})
	stream := w.stream("east", namespacesKind)
	if !stream.Listed {
		require.NoError(w.t, w.s.Sweep(w.t.Context(), stream, 0, ""))
		stream.Listed = true
	}
	w.version++
	o := Object{Name: name, UID: fmt.Sprint("n", w.version), ResourceVersion: fmt.Sprint(w.version), JSON: []byte(`{"metadata": {"name": "` + name + `"}}`)}
	require.NoError(w.t, w.s.Write(w.t.Context(), stream, Batch{Changes: []Change{{Object: o}}}))
	revision, err := w.s.Revision(w.t.Context())
	require.NoError(w.t, err)
	_, had := w.namespaces[name]
	if w.namespaces[name] = revision; name == history.SystemNamespace && had {
		w.since["east"] = revision
	}
}

// allows reports whether a reader who sees a scope now may see an object of a state.
func (w *world) allows(scope access.Filter, in state, o known) bool {
	if scope == nil {
		return true
	}
	part := scope.ObjectSet(o.cluster, o.kind.GroupResource())
	since, has := w.since[o.cluster]
	if !part.Has(o.Namespace, o.Name) || !has || in.revision < since {
		return false
	}
	return part.IsAll() || slices.Contains(part.Names(), o.Name) || o.cluster != "east" || in.revision >= w.namespaces[o.Namespace]
}

func (w *world) write(stream *streams.Stream, cluster string, kind streams.Kind) {
	w.t.Helper()
	owners := []string{"nobody"}
	for _, o := range w.has {
		owners = append(owners, o.UID)
	}
	slices.Sort(owners)
	var batch Batch
	for range 1 + w.r.IntN(8) {
		w.version++
		o := randomObject(w.r, cluster, kind, w.r.IntN(6), owners)
		o.ResourceVersion = fmt.Sprint(w.version)
		o.JSON = []byte(strings.Replace(string(o.JSON), `"`+v1beta1.ResourceVersionAnnotation+`":"`, `"`+v1beta1.ResourceVersionAnnotation+`":"`+o.ResourceVersion+`","was":"`, 1))
		o.clusterID = stream.ClusterID
		deleted := w.r.IntN(4) == 0
		if key := kind.Resource + " " + o.String(); deleted {
			delete(w.has, key)
		} else {
			w.has[key] = o
		}
		batch.Changes = append(batch.Changes, Change{Object: o.Object, Deleted: deleted})
	}
	require.NoError(w.t, w.s.Write(w.t.Context(), stream, batch))
}

// scope returns what a reader sees, or nil for everything.
func (w *world) scope() access.Filter {
	if w.r.IntN(2) == 0 || len(w.has) == 0 {
		return nil
	}
	scope := given{asOf: lastRights(w.t, w.s), parts: map[string]*access.ObjectSet{}}
	for _, cluster := range []string{"east", "north", "west"} {
		for _, kind := range worldKinds {
			scope.parts[cluster+" "+kind.GroupResource().String()] = randomPart(w.r, slices.Collect(maps.Values(w.has)))
		}
	}
	return scope
}

// query returns a query that finds something in a state, more often than not.
func (w *world) query(in state) (query.Query, []streams.Kind) {
	q := query.Query{WithRemaining: w.r.IntN(3) > 0}
	if len(in.objects) > 0 && w.r.IntN(3) > 0 {
		q = randomQuery(w.r, in.objects)
		if w.r.IntN(2) == 0 {
			q.Labels, q.Fields = nil, nil
		}
	}
	q.WithContinue = true
	return q, pick(w.r, [][]streams.Kind{{pods}, {pods}, {replicaSets}, {deployments, replicaSets, pods}})
}

// found returns what a query should find in a state, for a reader who sees a scope.
func (w *world) found(in state, q query.Query, kinds []streams.Kind, scope access.Filter) (names []string) {
	all := slices.DeleteFunc(slices.Clone(in.objects), func(o known) bool { return !w.allows(scope, in, o) })
	found := expected(all, q, kinds)
	inOrder(found, q, len(kinds) > 1)
	for _, o := range found[min(int(q.Offset), len(found)):] {
		names = append(names, o.String()+" "+o.ResourceVersion)
	}
	return names
}

// differing returns what was not the same in another state.
func (in state) differing(other state) state {
	in.objects = slices.DeleteFunc(slices.Clone(in.objects), func(o known) bool {
		return slices.ContainsFunc(other.objects, func(p known) bool { return p.ResourceVersion == o.ResourceVersion })
	})
	return in
}

// page returns "CLUSTER/NAMESPACE/NAME RESOURCEVERSION" of what a page has.
func page(s *Store, q query.Query, kinds []streams.Kind) (names []string, page Page, err error) {
	var patterns []schema.GroupVersionResource
	for _, kind := range kinds {
		patterns = append(patterns, kind.GroupVersionResource)
	}
	page, err = s.List(context.Background(), patterns, &q, func(f Found) error {
		e := entry{Found: f}
		err := e.readText()
		var object struct {
			Metadata struct{ Namespace, Name string }
		}
		err = errors.Join(err, json.Unmarshal(f.JSON, &object))
		names = append(names, f.Cluster+"/"+object.Metadata.Namespace+"/"+object.Metadata.Name+" "+e.resourceVersion)
		return err
	})
	return names, page, err
}

// TestPagesAreOfOneRevision holds that all pages of a list together are what there was at its resourceVersion, whatever is written between them: each object
// once, in its place and in its state. So a watch from that resourceVersion goes on with what the list has.
func TestPagesAreOfOneRevision(t *testing.T) {
	each(t, func(t *testing.T, s *Store) {
		seed := uint64(time.Now().UnixNano())
		w := newWorld(t, s, rand.New(rand.NewPCG(seed, 0)))
		several, ended := 0, 0
		for round := 0; round < 60 || several <= 5 && round < 600; round++ { // few random queries find several pages
			w.change()
			in, scope := w.last(), w.scope()
			q, kinds := w.query(in)
			s.many = pick(w.r, manyOrFew)
			if w.r.IntN(4) == 0 {
				other := pick(w.r, w.states)
				q.DiffersFrom, q.Owner = &query.Moment{Revision: other.revision}, nil
				in = in.differing(other)
			}
			if w.r.IntN(3) > 0 { // most lists have pages
				q.Limit = int64(1 + w.r.IntN(3))
			}
			want, described := w.found(in, q, kinds, scope), fmt.Sprintf("seed %d, %s, scope %v, state %d", seed, described(q), scope, in.revision)
			var got []string
			pages, changed := 0, false
			for more := true; more; pages++ {
				names, page, err := page(s.For(scope), q, kinds)
				if changed && scope != nil && (errors.Is(err, ErrOtherRights) || errors.Is(err, access.ErrRightsChanged)) {
					ended++ // clusters that the reader sees have come or gone
					break
				}
				require.NoError(t, err, described)
				got = append(got, names...)
				require.Equal(t, want[:min(len(got), len(want))], got, "page %d, %s", pages, described)
				assert.Equal(t, in.revision, page.Revision, described)
				if !assert.Contains(t, remaining(s, q, page, len(want)-len(got)), page.Remaining,
					"%d of %d remain, and the page says %d: page %d, %s", len(want)-len(got), len(want), page.Remaining, pages, described) {
					return
				}
				if more = page.More; !more {
					require.Equal(t, want, got, "page %d, %s", pages, described)
					break
				}
				for range w.r.IntN(4) {
					w.change()
					changed = true
				}
				after, err := query.ParsePosition(page.Next.String())
				require.NoError(t, err)
				q.After, q.At, q.Offset = after, &query.Moment{Revision: after.Revision}, 0
				if after.DiffersFrom != nil {
					q.DiffersFrom = &query.Moment{Revision: *after.DiffersFrom}
				}
			}
			if pages > 1 && changed {
				several++
			}
		}
		t.Logf("%d lists had several pages with changes between them, %d were refused", several, ended)
		assert.Greater(t, several, 5, "seed %d", seed)
	})
}

// TestQueriesFindWhatThereWas asks for earlier states, and for what differs between two of them.
func TestQueriesFindWhatThereWas(t *testing.T) {
	each(t, func(t *testing.T, s *Store) {
		seed := uint64(time.Now().UnixNano())
		w := newWorld(t, s, rand.New(rand.NewPCG(seed, 0)))
		for range 60 {
			w.change()
		}
		// Times before the first change are for judgeErrors.
		_, began, err := s.HistoryBegins(t.Context())
		require.NoError(t, err)
		w.states = slices.DeleteFunc(w.states, func(in state) bool { return in.at.Before(began) })
		some := 0
		for range 150 {
			in, other := pick(w.r, w.states), pick(w.r, w.states)
			q, kinds := w.query(in)
			q.At = pick(w.r, []*query.Moment{{Revision: in.revision}, {Time: in.at}, {Time: in.at.Add(time.Second / 2)}})
			scope, before := w.scope(), in
			if w.r.IntN(2) == 0 {
				q.DiffersFrom = &query.Moment{Time: other.at}
				q.Owner = nil // an owner need not differ
				before = in.differing(other)
			}
			want, described := w.found(before, q, kinds, scope), fmt.Sprintf("seed %d, %s, scope %v, state %d", seed, described(q), scope, in.revision)
			got, page, err := page(s.For(scope), q, kinds)
			require.NoError(t, err, described)
			assert.LessOrEqual(t, page.Revision, in.revision, described)
			if q.Limit > 0 {
				want = want[:min(int(q.Limit), len(want))]
			}
			if !assert.Equal(t, want, got, described) {
				return
			}
			some += min(1, len(got))
		}
		assert.Greater(t, some, 20, "few queries find anything: seed %d", seed)

		for _, in := range w.states {
			if len(in.objects) == 0 {
				continue
			}
			o, moment := pick(w.r, in.objects), &query.Moment{Revision: in.revision}
			got, err := s.GetAt(t.Context(), moment, o.cluster, o.kind.GroupVersionResource, o.Namespace, o.Name)
			if since, has := w.since[o.cluster]; !has || in.revision < since {
				assert.ErrorIs(t, err, ErrNotFound, "another cluster had the name: seed %d: %s at %d", seed, o, in.revision)
				continue
			}
			require.NoError(t, err, "seed %d: %s at %d", seed, o, in.revision)
			assert.JSONEq(t, string(objectjson.WithRevision(o.JSON, 0)), string(objectjson.WithRevision(got.JSON, 0)))
		}
		w.judgeErrors()
	})
}

// judgeErrors asks for what the history, or the reader, does not have.
func (w *world) judgeErrors() {
	ask := func(scope access.Filter, m query.Moment) error {
		_, err := w.s.For(scope).GetAt(w.t.Context(), &m, "east", pods.GroupVersionResource, "default", "none")
		return err
	}
	assert.ErrorIs(w.t, ask(nil, query.Moment{Latest: true}), ErrNotFound)
	assert.ErrorIs(w.t, ask(nil, query.Moment{Revision: 1}), ErrNotFound)
	assert.ErrorIs(w.t, ask(nil, query.Moment{Revision: 1 << 40}), history.ErrFuture)
	assert.ErrorIs(w.t, ask(given{asOf: -1, generation: 7}, query.Moment{Latest: true}), access.ErrRightsChanged)
	_, began, err := w.s.HistoryBegins(w.t.Context())
	require.NoError(w.t, err)
	assert.ErrorIs(w.t, ask(nil, query.Moment{Time: began.Add(-time.Millisecond)}), history.ErrPruned, "search knew no object before its first change")
	assert.ErrorIs(w.t, ask(nil, query.Moment{Time: began}), ErrNotFound)
	for more := true; more; {
		var err error
		more, err = w.s.Prune(w.t.Context(), w.states[len(w.states)/2].at)
		require.NoError(w.t, err)
	}
	begins, at, err := w.s.HistoryBegins(w.t.Context())
	require.NoError(w.t, err)
	require.Greater(w.t, begins, int64(1))
	assert.ErrorIs(w.t, ask(nil, query.Moment{Revision: begins - 1}), history.ErrPruned)
	assert.ErrorIs(w.t, ask(nil, query.Moment{Time: at.Add(-time.Millisecond)}), history.ErrPruned)
	assert.ErrorIs(w.t, ask(nil, query.Moment{Revision: begins}), ErrNotFound)
	assert.ErrorIs(w.t, ask(nil, query.Moment{Time: at}), ErrNotFound)
	for _, position := range []query.Position{{After: 1 << 40}, {After: 1, Rights: 7}} {
		position.Revision = w.last().revision
		_, _, err := page(w.s, query.Query{After: &position, At: &query.Moment{Revision: position.Revision}}, []streams.Kind{pods})
		assert.True(w.t, errors.Is(err, ErrPosition) || errors.Is(err, ErrOtherRights), "%v", err)
	}
}
