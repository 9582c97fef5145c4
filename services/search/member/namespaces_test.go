// Copyright The Tripod Authors.
// SPDX-License-Identifier: Apache-2.0

package member

import (
	"encoding/json"
	"fmt"
	"io"
	"maps"
	"net/http"
	"net/http/httptest"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/rest"

	"github.com/tripod-k8s/tripod/services/search/query"
	"github.com/tripod-k8s/tripod/services/search/store"
	"github.com/tripod-k8s/tripod/services/search/store/storetest"
	"github.com/tripod-k8s/tripod/services/search/store/streams"
)

// guarded is an API server that shows config maps in some namespaces only.
type guarded struct {
	*httptest.Server

	mu      sync.Mutex
	changed *sync.Cond
	closed  bool
	// shown are the namespaces that may be read, with their config maps.
	shown map[string]map[string]int
	// events are those of all namespaces, and forgotten is the version up to which they are not known any more.
	events    []guardedEvent
	forgotten int
	// versions begin with this, so that they can be long.
	prefix string
	// requests counts lists and watches by namespace.
	requests map[string]int
}

type guardedEvent struct{ typ, namespace, name string }

func newGuarded(t *testing.T, shown ...string) *guarded {
	g := &guarded{shown: map[string]map[string]int{}, requests: map[string]int{}, prefix: "1"}
	g.changed = sync.NewCond(&g.mu)
	for _, namespace := range shown {
		g.shown[namespace] = map[string]int{}
	}
	g.Server = httptest.NewServer(g)
	t.Cleanup(func() {
		g.do(func() { g.closed = true })
		g.CloseClientConnections()
		g.Close()
	})
	return g
}

func (g *guarded) do(change func()) {
	g.mu.Lock()
	defer g.mu.Unlock()
	change()
	g.changed.Broadcast()
}

// put changes config maps, NAMESPACE/NAME.
func (g *guarded) put(names ...string) {
	g.do(func() {
		for _, each := range names {
			namespace, name, _ := strings.Cut(each, "/")
			g.events = append(g.events, guardedEvent{"ADDED", namespace, name})
			g.shown[namespace][name] = len(g.events)
		}
	})
}

func (g *guarded) remove(each string) {
	g.do(func() {
		namespace, name, _ := strings.Cut(each, "/")
		g.events = append(g.events, guardedEvent{"DELETED", namespace, name})
		delete(g.shown[namespace], name)
	})
}

func (g *guarded) count(what string) int {
	g.mu.Lock()
	defer g.mu.Unlock()
	return g.requests[what]
}

func (g *guarded) version(n int) string { return g.prefix + fmt.Sprintf("%06d", n) }

func (g *guarded) object(namespace, name string, version int) json.RawMessage {
	return json.RawMessage(fmt.Sprintf(`{"metadata": {"name": %q, "namespace": %q, "uid": "uid-%s-%s", "resourceVersion": %q}}`,
		name, namespace, namespace, name, g.version(version)))
}

func (g *guarded) ServeHTTP(w http.ResponseWriter, req *http.Request) {
	g.mu.Lock()
	defer g.mu.Unlock()
	w.Header().Set("Content-Type", "application/json")
	parts := strings.Split(req.URL.Path, "/") // /api/v1/namespaces/NAMESPACE/configmaps
	switch {
	case req.URL.Path == "/version":
		fmt.Fprint(w, `{"gitVersion": "v1.30.0"}`)
	case req.URL.Path == "/api":
		fmt.Fprint(w, `{"kind": "APIVersions", "versions": ["v1"]}`)
	case req.URL.Path == "/apis":
		fmt.Fprint(w, `{"kind": "APIGroupList", "groups": []}`)
	case req.URL.Path == "/api/v1":
		json.NewEncoder(w).Encode(metav1.APIResourceList{GroupVersion: "v1", APIResources: []metav1.APIResource{ //nolint:errcheck // the client is gone
			{Name: "configmaps", Kind: "ConfigMap", Namespaced: true, Verbs: []string{"list", "watch"}},
			{Name: "nodes", Kind: "Node", Verbs: []string{"list", "watch"}},
		}})
	case len(parts) != 6 || parts[5] != "configmaps" || g.shown[parts[4]] == nil:
		fail(w, http.StatusForbidden, metav1.StatusReasonForbidden)
	case req.URL.Query().Get("watch") == "true":
		g.requests["watch "+parts[4]]++
		g.watch(w, parts[4], req.URL.Query().Get("resourceVersion"))
	default:
		g.requests["list "+parts[4]]++
		g.list(w, parts[4], req.URL.Query().Get("continue"))
	}
}

// list sends pages of two.
func (g *guarded) list(w http.ResponseWriter, namespace, token string) {
	names := slices.Sorted(maps.Keys(g.shown[namespace]))
	from, _ := strconv.Atoi(token)
	to := min(from+2, len(names))
	meta := metav1.ListMeta{ResourceVersion: g.version(len(g.events))}
	if to < len(names) {
		meta.Continue = fmt.Sprint(to)
	}
	items := []json.RawMessage{}
	for _, name := range names[from:to] {
		items = append(items, g.object(namespace, name, g.shown[namespace][name]))
	}
	json.NewEncoder(w).Encode(map[string]any{"metadata": meta, "items": items}) //nolint:errcheck // the client is gone
}

func (g *guarded) watch(w http.ResponseWriter, namespace, resourceVersion string) {
	at, err := strconv.Atoi(strings.TrimPrefix(resourceVersion, g.prefix))
	switch {
	case err != nil:
		fail(w, http.StatusBadRequest, metav1.StatusReasonBadRequest)
		return
	case at < g.forgotten:
		fail(w, http.StatusGone, metav1.StatusReasonExpired)
		return
	}
	for !g.closed && g.shown[namespace] != nil {
		for ; at < len(g.events); at++ {
			if e := g.events[at]; e.namespace == namespace {
				fmt.Fprintf(w, `{"type": %q, "object": %s}`+"\n", e.typ, g.object(namespace, e.name, at+1))
			}
		}
		w.(http.Flusher).Flush()
		g.changed.Wait()
	}
}

// runOnly copies namespaces until stop is called.
func runOnly(t *testing.T, g *guarded, s *store.Store, namespaces ...string) (m *Member, stop func()) {
	t.Helper()
	m, err := New("east", &rest.Config{Host: g.URL}, Everything, Dependencies{Store: s, Limiter: newLimiter(t, nil)})
	require.NoError(t, err)
	require.NoError(t, m.Only(namespaces...))
	m.discoveryInterval = 50 * time.Millisecond
	ctx, cancel := contextFor(t)
	done := make(chan struct{})
	go func() {
		defer close(done)
		m.Run(ctx)
	}()
	stop = func() {
		cancel()
		<-done
	}
	t.Cleanup(stop)
	return m, stop
}

// copied waits until the store has certain config maps, NAMESPACE/NAME.
func copied(t *testing.T, s *store.Store, want ...string) {
	t.Helper()
	require.Eventually(t, func() bool {
		var has []string
		_, err := s.List(t.Context(), nil, &query.Query{}, func(f store.Found) error {
			var o metav1.PartialObjectMetadata
			err := json.Unmarshal(f.JSON, &o)
			has = append(has, o.Namespace+"/"+o.Name)
			return err
		})
		slices.Sort(has)
		return (err == nil || err == streams.ErrUnknownKind) && slices.Equal(want, has) //nolint:errorlint // the store returns it as it is
	}, time.Minute, 20*time.Millisecond, "want %q", want)
}

// awaitWatch waits until a namespace was watched so often.
func (g *guarded) awaitWatch(t *testing.T, namespace string, times int) {
	t.Helper()
	require.Eventually(t, func() bool { return g.count("watch "+namespace) >= times }, time.Minute, 10*time.Millisecond)
}

func TestNamespacesAreCopiedOneByOne(t *testing.T) {
	databases, err := storetest.Start()
	require.NoError(t, err)
	defer databases.Stop()
	databases.Each(t, func(t *testing.T, url string) {
		s, err := store.Open(url)
		require.NoError(t, err)
		t.Cleanup(func() { s.Close() })
		require.NoError(t, s.Migrate(t.Context()))
		copiesNamespaces(t, s)
	})
}

func copiesNamespaces(t *testing.T, s *store.Store) {
	t.Helper()
	g := newGuarded(t, "a", "b", "empty", "other")
	g.put("a/1", "a/2", "a/3", "b/1", "other/1")
	m, stop := runOnly(t, g, s, "b", "a", "empty", "a")
	copied(t, s, "a/1", "a/2", "a/3", "b/1")
	g.put("b/2", "a/1", "other/2")
	g.remove("a/2")
	copied(t, s, "a/1", "a/3", "b/1", "b/2")
	health, streams := m.Status()
	assert.Equal(t, []string{"nodes"}, health.LeftOut)
	require.Len(t, streams, 1)
	assert.Equal(t, Syncing, streams[0].Phase)
	g.awaitWatch(t, "empty", 1)

	stop()
	listed := g.count("list a")
	g.put("empty/1")
	_, stop = runOnly(t, g, s, "a", "b", "empty")
	copied(t, s, "a/1", "a/3", "b/1", "b/2", "empty/1")
	assert.Equal(t, listed, g.count("list a"), "the watches go on where they were")

	stop() // other namespaces are listed
	_, stop = runOnly(t, g, s, "b", "other")
	copied(t, s, "b/1", "b/2", "other/1", "other/2")
	g.put("a/4", "b/3")
	copied(t, s, "b/1", "b/2", "b/3", "other/1", "other/2")
	assert.Zero(t, g.count("list "), "nothing asks for all namespaces")
	stop()
}

func TestEmptyNamespacesAreNoEndlessList(t *testing.T) {
	var names []string
	for i := range maxNamespaces {
		names = append(names, fmt.Sprintf("n%02d", i))
	}
	g, s := newGuarded(t, names...), newStore(t)
	g.put("n49/1")
	_, stop := runOnly(t, g, s, names...)
	copied(t, s, "n49/1")
	g.put("n00/1", "n48/1", "n49/2")
	copied(t, s, "n00/1", "n48/1", "n49/1", "n49/2")
	// The slots have no room in a database. The next writer lists.
	stop()
	listed := g.count("list n49")
	g.put("n20/1")
	runOnly(t, g, s, names...)
	copied(t, s, "n00/1", "n20/1", "n48/1", "n49/1", "n49/2")
	require.Eventually(t, func() bool { return g.count("list n49") > listed }, time.Minute, 10*time.Millisecond)
}

func TestANamespaceThatIsRefusedLeavesTheCopyAsItIs(t *testing.T) {
	g, s := newGuarded(t, "a", "b"), newStore(t)
	g.put("a/1", "b/1")
	m, _ := runOnly(t, g, s, "a", "b")
	copied(t, s, "a/1", "b/1")
	g.awaitWatch(t, "b", 1)
	var hidden map[string]int
	g.do(func() { hidden, g.shown["b"] = g.shown["b"], nil })
	require.Eventually(t, func() bool {
		_, streams := m.Status()
		return len(streams) == 1 && streams[0].Phase == Failed && streams[0].Reason == "Forbidden" && strings.Contains(streams[0].Message, "namespace b")
	}, time.Minute, 10*time.Millisecond)
	copied(t, s, "a/1", "b/1")
	g.do(func() { g.shown["b"] = hidden })
	g.put("b/2")
	copied(t, s, "a/1", "b/1", "b/2")
}

func TestANamespaceWhoseVersionIsForgottenIsListed(t *testing.T) {
	g, s := newGuarded(t, "a", "b"), newStore(t)
	g.put("a/1", "b/1")
	_, stop := runOnly(t, g, s, "a", "b")
	copied(t, s, "a/1", "b/1")
	stop()
	g.put("a/2")
	g.remove("b/1")
	g.do(func() { g.forgotten = len(g.events) })
	runOnly(t, g, s, "a", "b")
	copied(t, s, "a/1", "a/2")
}

// TestPlacesAreThoseOfTheSameNamespaces is about a PediaCluster whose namespaces change to all, or back.
func TestPlacesAreThoseOfTheSameNamespaces(t *testing.T) {
	all, some := source{}, source{namespaces: []string{"a", "b"}}
	for text, want := range map[string][2]bool{
		"": {false, false}, "12": {true, false}, unplaced: {false, false},
		`{"a":"1","b":"2"}`: {false, true}, `{"a":"1"}`: {false, false}, `{"a":"1","b":"2","c":"3"}`: {false, false}, "{": {false, false},
	} {
		assert.Equal(t, want, [2]bool{all.goesOn(text), some.goesOn(text)}, text)
	}
	assert.Equal(t, unplaced, storable(strings.Repeat("1", maxPlace+1)))
}

func TestAStreamIsHeardWhenAllItsNamespacesAre(t *testing.T) {
	w := &watches{open: make(chan struct{}), slots: map[string]string{"a": "1", "b": "2"}, syncedAt: map[string]time.Time{}}
	opened := 0
	w.opened("a", func() { opened++ })
	w.opened("b", func() { opened++ })
	assert.Equal(t, 1, opened)
	began := time.Now()
	var text string
	var syncedAt time.Time
	require.NoError(t, w.pass("b", event{syncedAt: began.Add(-time.Minute)}, func(event) error { return nil }))
	require.NoError(t, w.pass("a", event{syncedAt: began}, func(e event) error {
		text, syncedAt = e.placed("3")
		return nil
	}))
	assert.JSONEq(t, `{"a": "3", "b": "2"}`, text)
	assert.Equal(t, began.Add(-time.Minute), syncedAt)
	f := &following{}
	assert.Equal(t, syncedAt, f.syncedSince(syncedAt))
	f.checked.Store(began.UnixNano())
	assert.WithinDuration(t, began, f.syncedSince(syncedAt), 0, "a check has found that b answers")
}

func TestNamespacesOfAMemberAreNames(t *testing.T) {
	m := &Member{}
	require.NoError(t, m.Only("a", "1", "kube-system"))
	for _, wrong := range []string{"", "a/b", "A", "..", strings.Repeat("a", 64), "a b"} {
		require.Error(t, m.Only("a", wrong), wrong)
	}
	require.ErrorContains(t, m.Only(make([]string, maxNamespaces+1)...), "at most 50 namespaces")
}

func TestANamespaceThatTheSpecForgetsGoesAtOnce(t *testing.T) {
	g, s := newGuarded(t, "a", "b"), newStore(t)
	g.put("a/1", "b/1")
	_, stop := runOnly(t, g, s, "a", "b")
	copied(t, s, "a/1", "b/1")
	stop()
	_, stop = runOnly(t, g, s, "b", "refused")
	copied(t, s, "b/1")
	stop()
	runOnly(t, g, s, "a", "b")
	copied(t, s, "a/1", "b/1") // although the store had the place of these namespaces
}

// A watch that sends nothing for long is opened again, and is no failure of the stream.
func TestASilentNamespaceIsNoFailure(t *testing.T) {
	g := newGuarded(t, "a", "b")
	m, err := New("east", &rest.Config{Host: g.URL}, Everything, Dependencies{Store: newStore(t), Limiter: newLimiter(t, nil)})
	require.NoError(t, err)
	s := m.source()
	s.namespaces = []string{"a", "b"}
	slots := ""
	for token := "begin"; token != ""; {
		token, slots, _, err = s.page(t.Context(), strings.TrimPrefix(token, "begin"), func(i item) error { i.done(); return nil })
		require.NoError(t, err)
	}
	err = s.watchNamespaces(t.Context(), slots, 50*time.Millisecond, func() {}, func(event) error { return nil })
	assert.ErrorIs(t, err, errSilent)
}

// inTurn answers a watch of namespace a at once with an event, and one of namespace b when it may.
type inTurn struct {
	read, answer chan struct{}
}

// RoundTrip implements http.RoundTripper.
func (s *inTurn) RoundTrip(req *http.Request) (*http.Response, error) {
	if strings.Contains(req.URL.Path, "/namespaces/b/") {
		<-s.answer
	}
	return &http.Response{StatusCode: http.StatusOK, Header: http.Header{"Content-Type": {"application/json"}}, Body: s}, nil
}

// Read implements io.Reader.
func (s *inTurn) Read([]byte) (int, error) {
	s.read <- struct{}{}
	return 0, io.EOF
}

// Close implements io.Closer.
func (s *inTurn) Close() error { return nil }

// TestNoEventIsReadUntilAllWatchesAreOpen holds that nothing of a member waits for the member with what others wait for.
func TestNoEventIsReadUntilAllWatchesAreOpen(t *testing.T) {
	server := &inTurn{make(chan struct{}, 2), make(chan struct{})}
	from := newMember(t, &rest.Config{Host: "http://member", Transport: server}, nil).source()
	from.namespaces = []string{"a", "b"}
	ended := make(chan error, 1)
	go func() {
		ended <- from.watchNamespaces(t.Context(), `{"a":"1","b":"1"}`, time.Minute, func() {}, func(event) error { return nil })
	}()
	select {
	case <-server.read:
		assert.Fail(t, "it was read too early")
	case <-time.After(200 * time.Millisecond):
	}
	close(server.answer)
	require.NoError(t, <-ended)
}
