// Copyright The Tripod Authors.
// SPDX-License-Identifier: Apache-2.0

package member

import (
	"encoding/json"
	"fmt"
	"maps"
	"net/http"
	"net/http/httptest"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/rest"

	"github.com/tripod-k8s/tripod/services/search/query"
	"github.com/tripod-k8s/tripod/services/search/shards"
	"github.com/tripod-k8s/tripod/services/search/store"
	"github.com/tripod-k8s/tripod/services/search/store/storetest"
	"github.com/tripod-k8s/tripod/services/search/store/streams"
)

// fakeMember is an API server with config maps, of which each change is an event. It keeps all events, unless it forgets them.
type fakeMember struct {
	*httptest.Server
	// streaming is set if it knows streaming lists.
	streaming bool
	// odd answers a request for config maps, or returns false. It may be nil.
	odd func(w http.ResponseWriter, query url.Values) bool
	// refuse answers all requests for config maps with this code, if it is not zero.
	refuse int

	mu      sync.Mutex
	changed *sync.Cond
	// objects are the resourceVersions of config maps by name.
	objects map[string]int
	events  []fakeEvent
	// forgotten is the resourceVersion up to which it does not know events.
	forgotten int
	// resources are those that discovery lists.
	resources []string
	// described changes the entry of a resource in discovery.
	described func(*metav1.APIResource)
	// document is the version of its OpenAPI document. It has none if that is 0.
	document int
	// blanks are how many it has besides.
	blanks int
	// requests counts requests for config maps: list, initial, watch.
	requests map[string]int
	closed   bool
	// wrong are objects that are none, by name.
	wrong map[string]string
	// half is an object of whose event it sends half.
	half string
}

type fakeEvent struct {
	typ, name string
	version   int
}

func newFakeMember(t *testing.T) *fakeMember {
	f := &fakeMember{streaming: true, objects: map[string]int{}, requests: map[string]int{}, resources: []string{"configmaps", "secrets"}}
	f.changed = sync.NewCond(&f.mu)
	f.Server = httptest.NewServer(f)
	t.Cleanup(func() {
		f.do(func() { f.closed = true })
		f.CloseClientConnections()
		f.Close()
	})
	return f
}

// do changes the member.
func (f *fakeMember) do(change func()) {
	f.mu.Lock()
	defer f.mu.Unlock()
	change()
	f.changed.Broadcast()
}

func (f *fakeMember) put(names ...string) {
	f.do(func() {
		for _, name := range names {
			f.event("ADDED", name)
			f.objects[name] = len(f.events)
		}
	})
}

func (f *fakeMember) remove(name string) {
	f.do(func() {
		f.event("DELETED", name)
		delete(f.objects, name)
	})
}

func (f *fakeMember) event(typ, name string) {
	f.events = append(f.events, fakeEvent{typ, name, len(f.events) + 1})
}

func (f *fakeMember) count(kind string) int {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.requests[kind]
}

func object(name string, version int) string {
	return fmt.Sprintf(`{"metadata": {"name": %q, "namespace": "default", "uid": "uid-%s", "resourceVersion": "%d", "creationTimestamp": "2026-01-01T00:00:00Z",
		"labels": {"app": %q}, "managedFields": [{}], "annotations": {"kubectl.kubernetes.io/last-applied-configuration": "{}", "a": "b"},
		"ownerReferences": [{"uid": "u1"}, {"uid": "u2"}]}, "data": {"x": "<y>"}}`, name, name, version, name)
}

func (f *fakeMember) object(name string, version int) string {
	if wrong := f.wrong[name]; wrong != "" {
		return wrong
	}
	return object(name, version)
}

func (f *fakeMember) ServeHTTP(w http.ResponseWriter, req *http.Request) {
	f.mu.Lock()
	defer f.mu.Unlock()
	w.Header().Set("Content-Type", "application/json")
	if strings.HasPrefix(req.URL.Path, "/openapi") && f.document == 0 {
		http.NotFound(w, req)
		return
	}
	switch req.URL.Path {
	case "/version":
		fmt.Fprint(w, `{"gitVersion": "v1.30.0"}`)
	case "/api":
		fmt.Fprint(w, `{"kind": "APIVersions", "versions": ["v1"]}`)
	case "/apis":
		fmt.Fprint(w, `{"kind": "APIGroupList", "groups": []}`)
	case "/api/v1":
		list := metav1.APIResourceList{GroupVersion: "v1"}
		for _, name := range f.resources {
			resource := metav1.APIResource{Name: name, Kind: "ConfigMap", Namespaced: true, Verbs: []string{"list", "watch"}, ShortNames: []string{"cm"}}
			if f.described != nil {
				f.described(&resource)
			}
			list.APIResources = append(list.APIResources, resource)
		}
		json.NewEncoder(w).Encode(list) //nolint:errcheck // the client is gone
	case "/api/v1/configmaps", "/api/v1/things", "/apis/rbac.authorization.k8s.io/v1/rolebindings":
		f.configMaps(w, req)
	case "/openapi/v3":
		fmt.Fprintf(w, `{"paths": {"api/v1": {"serverRelativeURL": "/openapi/v3/api/v1?hash=%d"}, "apis/apps/v1": {"serverRelativeURL": "/elsewhere"}}}`, f.document)
	case "/openapi/v3/api/v1":
		f.requests["document"]++
		fmt.Fprintf(w, `{"version": %d}%s`, f.document, strings.Repeat(" ", f.blanks))
	default:
		http.NotFound(w, req)
	}
}

func fail(w http.ResponseWriter, code int, reason metav1.StatusReason) {
	w.WriteHeader(code)
	json.NewEncoder(w).Encode(metav1.Status{TypeMeta: metav1.TypeMeta{Kind: "Status", APIVersion: "v1"}, Status: "Failure", Code: int32(code), Reason: reason}) //nolint:errcheck // the client is gone
}

func (f *fakeMember) configMaps(w http.ResponseWriter, req *http.Request) {
	values := req.URL.Query()
	initial := values.Get("sendInitialEvents") == "true"
	switch {
	case f.odd != nil && f.odd(w, values):
	case f.refuse != 0:
		fail(w, f.refuse, metav1.StatusReasonForbidden)
	case initial && !f.streaming:
		f.requests["refused"]++
		fail(w, http.StatusUnprocessableEntity, metav1.StatusReasonInvalid)
	case values.Get("watch") == "true":
		f.watch(w, values.Get("resourceVersion"), initial)
	default:
		f.list(w, values.Get("continue"))
	}
}

// list sends pages of two.
func (f *fakeMember) list(w http.ResponseWriter, token string) {
	f.requests["list"]++
	names := slices.Sorted(maps.Keys(f.objects))
	from, _ := strconv.Atoi(token)
	meta := metav1.ListMeta{ResourceVersion: fmt.Sprint(len(f.events))}
	to := min(from+2, len(names))
	if to < len(names) {
		meta.Continue = fmt.Sprint(to)
	}
	items := []json.RawMessage{}
	for _, name := range names[from:to] {
		items = append(items, json.RawMessage(f.object(name, f.objects[name])))
	}
	json.NewEncoder(w).Encode(map[string]any{"metadata": meta, "items": items}) //nolint:errcheck // the client is gone
}

func (f *fakeMember) watch(w http.ResponseWriter, resourceVersion string, initial bool) {
	send := func(typ, object string) {
		fmt.Fprintf(w, `{"type": %q, "object": %s}`+"\n", typ, object)
	}
	at, _ := strconv.Atoi(resourceVersion)
	if initial {
		f.requests["initial"]++
		for _, name := range slices.Sorted(maps.Keys(f.objects)) {
			send("ADDED", f.object(name, f.objects[name]))
		}
		at = len(f.events)
		send("BOOKMARK", fmt.Sprintf(`{"metadata": {"resourceVersion": "%d", "annotations": {"k8s.io/initial-events-end": "true"}}}`, at))
	} else {
		f.requests["watch"]++
		if at < f.forgotten {
			send("ERROR", `{"kind": "Status", "status": "Failure", "code": 410, "reason": "Expired"}`)
			return
		}
	}
	for !f.closed {
		for ; at < len(f.events) && f.events[at].name != f.half; at++ {
			send(f.events[at].typ, f.object(f.events[at].name, f.events[at].version))
		}
		if at < len(f.events) {
			fmt.Fprint(w, `{"type": "ADDED"`)
		}
		w.(http.Flusher).Flush()
		f.changed.Wait()
	}
}

// newLimiter returns a limiter that takes members on this machine, with limits that are changed.
func newLimiter(t *testing.T, change func(*Limits)) *Limiter {
	t.Helper()
	limits := Standard()
	limits.Allow = []string{allowHTTP, allowLoopback}
	if change != nil {
		change(&limits)
	}
	limiter, err := NewLimiter(limits)
	require.NoError(t, err)
	return limiter
}

func newStore(t *testing.T) *store.Store {
	t.Helper()
	s, err := store.Open(storetest.SQLite(t))
	require.NoError(t, err)
	t.Cleanup(func() { s.Close() })
	require.NoError(t, s.Migrate(t.Context()))
	return s
}

// run copies a member until stop is called.
func run(t *testing.T, f *fakeMember, s *store.Store) (m *Member, stop func()) {
	t.Helper()
	return runAmong(t, f, s, nil)
}

// runAmong is run for one of several replicas.
func runAmong(t *testing.T, f *fakeMember, s *store.Store, work *shards.Shards) (m *Member, stop func()) {
	t.Helper()
	m, err := New("east", &rest.Config{Host: f.URL}, Everything, Dependencies{Store: s, Shards: work, Limiter: newLimiter(t, nil)})
	require.NoError(t, err)
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

// names returns what the store has.
func names(t *testing.T, s *store.Store) (names []string) {
	t.Helper()
	_, err := s.List(t.Context(), nil, &query.Query{}, func(f store.Found) error {
		var o metav1.PartialObjectMetadata
		err := json.Unmarshal(f.JSON, &o)
		names = append(names, o.Name)
		return err
	})
	if err != streams.ErrUnknownKind { //nolint:errorlint // the store returns it as it is
		require.NoError(t, err)
	}
	return names
}

func eventually(t *testing.T, s *store.Store, want ...string) {
	t.Helper()
	require.Eventually(t, func() bool { return slices.Equal(want, names(t, s)) }, time.Minute, 20*time.Millisecond, "want %q", want)
}

// kindOfConfigMaps is their kind in the discovery of a member.
var kindOfConfigMaps = streams.Kind{GroupVersionResource: configMaps, Name: "ConfigMap", Namespaced: true}
