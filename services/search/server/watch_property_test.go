// Copyright The Tripod Authors.
// SPDX-License-Identifier: Apache-2.0

package server

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"math/rand/v2"
	"net/http"
	"net/url"
	"strconv"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/tripod-k8s/tripod/services/search/apis/search/v1beta1"
	"github.com/tripod-k8s/tripod/services/search/store"
	"github.com/tripod-k8s/tripod/services/search/store/storetest"
	"github.com/tripod-k8s/tripod/services/search/store/streams"
)

// In TestWatchersKnowWhatListsShow, writers write for turmoil, and until each watcher has got more than fewEvents: on a busy machine, a watcher of few
// objects needs longer for that.
const (
	turmoil   = 3 * time.Second
	fewEvents = 10
)

// clusterWriter writes the deployments of a cluster as a stream does: it changes and deletes objects, lists all of them from time to time, and is replaced by
// another writer.
type clusterWriter struct {
	store   *store.Store
	cluster string
	r       *rand.Rand
	version int
	has     map[string]store.Change
}

func (m *clusterWriter) run(ctx context.Context, t *testing.T) {
	stream, err := m.store.OpenStream(ctx, m.cluster, kinds["D"])
	for err == nil && ctx.Err() == nil {
		switch m.r.IntN(20) {
		case 0: // another replica takes over, and the former one notices when it writes
			former := stream
			if stream, err = m.store.OpenStream(ctx, m.cluster, kinds["D"]); err == nil {
				late := m.store.Write(ctx, former, store.Batch{Changes: []store.Change{change("ns-0", "late", "1", nil)}})
				assert.True(t, errors.Is(late, streams.ErrFenced) || ctx.Err() != nil, "%v", late)
			}
		case 1: // a list, after changes that no watch has seen
			m.changes()
			m.version++
			batch := store.Batch{Listing: int64(m.version)}
			for _, c := range m.has {
				batch.Changes = append(batch.Changes, c)
			}
			if err = m.store.Write(ctx, stream, batch); err == nil {
				err = m.store.Sweep(ctx, stream, int64(m.version), "")
			}
		default:
			err = m.store.Write(ctx, stream, store.Batch{Changes: m.changes()})
		}
	}
	assert.True(t, err == nil || ctx.Err() != nil, "%v", err)
}

func (m *clusterWriter) changes() (all []store.Change) {
	for range 1 + m.r.IntN(5) {
		m.version++
		name := fmt.Sprint("object-", m.r.IntN(12))
		c := changeIn(m.cluster, fmt.Sprint("ns-", len(name)%2), name, fmt.Sprint(m.version), map[string]string{"x": fmt.Sprint(m.r.IntN(3))})
		if c.Deleted = m.r.IntN(4) == 0; c.Deleted {
			delete(m.has, name)
		} else {
			m.has[name] = c
		}
		all = append(all, c)
	}
	return all
}

// watcher follows a selection, as an informer does.
type watcher struct {
	t         *testing.T
	at        string
	selection url.Values
	r         *rand.Rand
	// has are the revisions of the objects that the watcher knows, and revision is where it is.
	has      map[string]int64
	revision int64
	// fresh is set until the watch has sent all initial events.
	fresh                 bool
	events, pages, expiry int
	// busy is closed when the watcher has got more than fewEvents, or has ended.
	busy chan struct{}
}

func key(o *metav1.PartialObjectMetadata) string {
	return o.Annotations[v1beta1.ClusterAnnotation] + "/" + o.Namespace + "/" + o.Name
}

// until watches until a revision, which is 0 as long as there is none.
func (w *watcher) until(ctx context.Context, last *atomic.Int64) {
	defer func() {
		if w.events <= fewEvents {
			close(w.busy)
		}
	}()
	for w.revision == 0 || last.Load() == 0 || w.revision < last.Load() {
		switch {
		case w.revision == 0 && !w.list(ctx):
			return
		case w.revision == 0 && !w.fresh: // the list is to begin again
		case !w.watch(ctx):
			return
		}
	}
}

func (w *watcher) ask(ctx context.Context, more url.Values) *http.Response {
	values := maps.Clone(w.selection)
	maps.Copy(values, more)
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, w.at+"?"+values.Encode(), nil)
	if !assert.NoError(w.t, err) {
		return nil
	}
	answer, err := http.DefaultClient.Do(req)
	if !assert.NoError(w.t, err) {
		return nil
	}
	return answer
}

// list lists, or leaves that to the watch.
func (w *watcher) list(ctx context.Context) bool {
	if w.fresh = w.r.IntN(2) == 0; w.fresh {
		w.has = map[string]int64{}
		return true
	}
	return w.read(ctx, w.r.IntN(2)*(1+w.r.IntN(5)))
}

// read reads a list in pages, or at once if the limit is 0, while others write.
func (w *watcher) read(ctx context.Context, limit int) bool {
	w.has = map[string]int64{}
	more := url.Values{"limit": {strconv.Itoa(limit)}, "withContinue": {"true"}}
	for w.revision = 0; ; w.pages++ {
		list, ok := w.page(ctx, more)
		if !ok || list == nil { // nil: it is to begin again
			return ok
		}
		for i := range list.Items {
			_, twice := w.has[key(&list.Items[i])]
			ok = assert.False(w.t, twice, "%s is in the list twice", key(&list.Items[i])) && ok
			w.has[key(&list.Items[i])], _ = strconv.ParseInt(list.Items[i].ResourceVersion, 10, 64)
		}
		if list.Continue == "" {
			w.revision, _ = strconv.ParseInt(list.ResourceVersion, 10, 64)
			return ok && assert.NotZero(w.t, w.revision)
		}
		more.Set("continue", list.Continue)
	}
}

// page reads a page of a list. It returns nil if the history does not reach back to the first one.
func (w *watcher) page(ctx context.Context, more url.Values) (*metav1.PartialObjectMetadataList, bool) {
	answer := w.ask(ctx, more)
	if answer == nil {
		return nil, false
	}
	defer answer.Body.Close()
	if more.Has("continue") && answer.StatusCode == http.StatusGone {
		w.expiry++
		return nil, true
	}
	var list metav1.PartialObjectMetadataList
	text, err := io.ReadAll(answer.Body)
	ok := assert.NoError(w.t, err) && assert.Equal(w.t, http.StatusOK, answer.StatusCode, "%s", text) && assert.NoError(w.t, json.Unmarshal(text, &list))
	return &list, ok
}

// watch watches for a second, or goes away before.
func (w *watcher) watch(ctx context.Context) bool {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	more := url.Values{"watch": {"1"}, "allowWatchBookmarks": {"true"}, "timeoutSeconds": {"1"}}
	if w.fresh {
		more.Set("sendInitialEvents", "true")
		more.Set("resourceVersionMatch", "NotOlderThan")
	} else {
		more.Set("resourceVersion", strconv.FormatInt(w.revision, 10))
	}
	answer := w.ask(ctx, more)
	if answer == nil {
		return false
	}
	defer answer.Body.Close()
	if answer.StatusCode == http.StatusGone {
		w.revision = 0
		w.expiry++
		return true
	}
	switch answer.StatusCode {
	case http.StatusOK:
	case http.StatusGatewayTimeout: // the second was over before the watch could begin
		return true
	default:
		text, _ := io.ReadAll(answer.Body)
		return assert.Fail(w.t, "no watch", "%v: %s: %s", w.selection, answer.Status, text)
	}
	decoder := json.NewDecoder(answer.Body)
	for left := w.r.IntN(200); left != 0 || w.fresh; left-- {
		var e event
		if decoder.Decode(&e) != nil {
			return true // the second is over
		}
		if e.Type == "ERROR" && e.Object.Code == http.StatusGone {
			w.revision = 0
			w.expiry++
			return true
		}
		if !w.take(&e) {
			return false
		}
	}
	return true
}

// take judges an event.
func (w *watcher) take(e *event) bool {
	revision, err := strconv.ParseInt(e.Object.ResourceVersion, 10, 64)
	if !assert.NoError(w.t, err, "%+v", e) {
		return false
	}
	name := key(&e.Object.PartialObjectMetadata)
	before, known := w.has[name]
	var ok bool
	switch e.Type {
	case "BOOKMARK":
		ok = assert.GreaterOrEqual(w.t, revision, w.revision)
		w.fresh = w.fresh && e.Object.Annotations[metav1.InitialEventsAnnotationKey] != "true"
		w.revision = revision
		return ok
	case "ADDED":
		ok = assert.False(w.t, known, "%s %s is not new", e, name)
		w.has[name] = revision
	case "MODIFIED":
		ok = assert.True(w.t, known, "%s %s was missed", e, name)
		w.has[name] = revision
	case "DELETED":
		ok = assert.True(w.t, known, "%s %s was missed", e, name)
		delete(w.has, name)
	default:
		return assert.Fail(w.t, "unexpected", "%+v", e)
	}
	if !w.fresh { // what there is comes in another order
		ok = ok && assert.Greater(w.t, revision, w.revision, "%s %s", e, name)
		w.revision = revision
	}
	if w.events++; w.events == fewEvents+1 {
		close(w.busy)
	}
	return ok && assert.Greater(w.t, revision, before, "%s %s", e, name)
}

// TestWatchersKnowWhatListsShow lets writers and watchers work at the same time. Writers are replaced, watchers go away and come back, and the history is
// so short that it does not always reach back to them.
func TestWatchersKnowWhatListsShow(t *testing.T) {
	databases, err := storetest.Start()
	require.NoError(t, err)
	defer databases.Stop()
	databases.Each(t, func(t *testing.T, location string) {
		s, err := store.Open(location)
		require.NoError(t, err)
		t.Cleanup(func() { s.Close() })
		require.NoError(t, s.Migrate(t.Context()))
		clusters := []string{"alpha", "beta", "gamma"}
		for _, cluster := range clusters {
			stream, err := s.OpenStream(t.Context(), cluster, kinds["D"])
			require.NoError(t, err)
			require.NoError(t, s.Sweep(t.Context(), stream, 1, "")) // so that the first revision is not 0
		}
		seed := uint64(time.Now().UnixNano())
		t.Logf("seed %d", seed)
		at := serverOf(t, NewHandler(s, nil, nil)) + "resources/apis/apps/v1/deployments"
		ctx, stop := context.WithTimeout(t.Context(), 2*time.Minute)
		defer stop()
		least := time.After(turmoil)
		var writers, readers sync.WaitGroup
		for i, cluster := range clusters {
			m := &clusterWriter{store: s, cluster: cluster, r: rand.New(rand.NewPCG(seed, uint64(i))), has: map[string]store.Change{}}
			writers.Go(func() { m.run(ctx, t) })
		}
		writers.Go(func() {
			for r := rand.New(rand.NewPCG(seed, 99)); ctx.Err() == nil; {
				_, err := s.Prune(ctx, time.Now().Add(-time.Duration(r.IntN(1000))*time.Millisecond))
				assert.True(t, err == nil || ctx.Err() != nil, "%v", err)
				time.Sleep(20 * time.Millisecond)
			}
		})
		var last atomic.Int64
		var watchers []*watcher
		for i, selection := range []url.Values{
			{}, {}, {"clusters": {"alpha,gamma"}}, {"namespaces": {"ns-1"}}, {"labelSelector": {"x in (1,2)"}}, {"fieldSelector": {"spec.x!=1"}},
			{"labelSelector": {"x=0,search.clusterpedia.io/clusters=beta"}}, {"names": {"object-1,object-10"}},
		} {
			w := &watcher{t: t, at: at, selection: selection, r: rand.New(rand.NewPCG(seed, uint64(100+i))), busy: make(chan struct{})}
			watchers = append(watchers, w)
			readers.Go(func() { w.until(t.Context(), &last) })
		}
		<-least
		for _, w := range watchers {
			select {
			case <-w.busy:
			case <-ctx.Done():
			}
		}
		stop()
		writers.Wait()
		revision, err := s.Revision(t.Context())
		require.NoError(t, err)
		last.Store(revision)
		readers.Wait()
		for _, w := range watchers {
			got := w.has
			for _, limit := range []int{0, 2} {
				require.True(t, w.read(t.Context(), limit))
				assert.Equal(t, w.has, got, "%v after %d events and %d expiries, limit %d", w.selection, w.events, w.expiry, limit)
			}
			assert.Greater(t, w.events, fewEvents, "%v", w.selection)
			t.Logf("%v: %d events, %d further pages, began again %d times", w.selection, w.events, w.pages, w.expiry)
		}
	})
}
