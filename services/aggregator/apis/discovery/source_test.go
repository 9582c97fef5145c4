// Copyright The Tripod Authors.
// SPDX-License-Identifier: Apache-2.0

package discovery

import (
	"context"
	"crypto/tls"
	"encoding/json"
	"fmt"
	"maps"
	"net/http"
	"net/http/httptest"
	"slices"
	"strconv"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	apidiscoveryv2 "k8s.io/api/apidiscovery/v2"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	discoveryendpoint "k8s.io/apiserver/pkg/endpoints/discovery/aggregated"

	"github.com/tripod-k8s/tripod/base/certs"
	"github.com/tripod-k8s/tripod/base/hop/trust"
	"github.com/tripod-k8s/tripod/services/aggregator/upstream"
)

// replica serves a discovery document that a test changes.
type replica struct {
	mu     sync.Mutex
	etag   string
	groups []apidiscoveryv2.APIGroupDiscovery
	down   bool
}

func (r *replica) ServeHTTP(w http.ResponseWriter, req *http.Request) {
	r.mu.Lock()
	defer r.mu.Unlock()
	switch {
	case r.down:
		w.WriteHeader(http.StatusServiceUnavailable)
	case req.Header.Get("If-None-Match") == r.etag:
		w.WriteHeader(http.StatusNotModified)
	default:
		w.Header().Set("Etag", r.etag)
		list := apidiscoveryv2.APIGroupDiscoveryList{
			TypeMeta: metav1.TypeMeta{Kind: "APIGroupDiscoveryList", APIVersion: "apidiscovery.k8s.io/v2"},
			Items:    r.groups,
		}
		_ = json.NewEncoder(w).Encode(list) // a client that went away has its own error
	}
}

func (r *replica) set(etag string, groups ...apidiscoveryv2.APIGroupDiscovery) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.etag, r.groups, r.down = etag, groups, false
}

func (r *replica) stop() {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.down = true
}

func group(name string, versions ...string) apidiscoveryv2.APIGroupDiscovery {
	g := apidiscoveryv2.APIGroupDiscovery{ObjectMeta: metav1.ObjectMeta{Name: name}}
	for _, version := range versions {
		g.Versions = append(g.Versions, apidiscoveryv2.APIVersionDiscovery{
			Version:   version,
			Freshness: apidiscoveryv2.DiscoveryFreshnessCurrent,
			Resources: []apidiscoveryv2.APIResourceDiscovery{{Resource: "things", ResponseKind: &metav1.GroupVersionKind{Kind: "Thing"}}},
		})
	}
	return g
}

// newTrust returns certificates of both backends, in files.
func newTrust(t testing.TB) trust.Options {
	t.Helper()
	store, err := certs.Open(t.TempDir())
	require.NoError(t, err)
	ca, err := store.Authority("ca", "ca")
	require.NoError(t, err)
	names := []string{trust.ServerName(upstream.Core), trust.ServerName(upstream.Extensions)}
	_, err = ca.Ensure("service", certs.Leaf{CommonName: "service", DNSNames: names, Server: true, Client: true})
	require.NoError(t, err)
	return trust.Options{CAFile: ca.File(), CertFile: store.CertFile("service"), KeyFile: store.KeyFile("service")}
}

func newBackend(t testing.TB, name string, pki trust.Options, servers ...string) *upstream.Backend {
	t.Helper()
	b, err := upstream.New(upstream.Config{Name: name, Servers: servers, Trust: pki})
	require.NoError(t, err)
	return b
}

// newSource returns a source for a backend whose one replica is the given one.
func newSource(t *testing.T, name string, r *replica, merged discoveryendpoint.ResourceManager) *Source {
	t.Helper()
	return newSourceOf(t, name, r, merged)
}

func newSourceOf(t *testing.T, name string, r http.Handler, merged discoveryendpoint.ResourceManager) *Source {
	t.Helper()
	pki := newTrust(t)
	cert, err := tls.LoadX509KeyPair(pki.CertFile, pki.KeyFile)
	require.NoError(t, err)
	server := httptest.NewUnstartedServer(r)
	server.TLS = &tls.Config{Certificates: []tls.Certificate{cert}}
	server.EnableHTTP2 = true
	server.StartTLS()
	t.Cleanup(server.Close)
	return sourceOf(newBackend(t, name, pki, server.URL), merged)
}

// sourceOf returns a source of a backend all of whose group-versions are shown.
func sourceOf(b *upstream.Backend, merged discoveryendpoint.ResourceManager) *Source {
	return NewSource(Config{
		Backend: b, Merged: merged,
		Shows:    func(schema.GroupVersion) bool { return true },
		OnMerged: func(map[schema.GroupVersionResource]bool) {},
	})
}

// list returns the merged document as a client reads it.
func list(t *testing.T, merged http.Handler) map[string]apidiscoveryv2.APIVersionDiscovery {
	t.Helper()
	req := httptest.NewRequest(http.MethodGet, "/apis", nil)
	req.Header.Set("Accept", acceptAggregated)
	w := httptest.NewRecorder()
	merged.ServeHTTP(w, req)
	var document apidiscoveryv2.APIGroupDiscoveryList
	if err := json.Unmarshal(w.Body.Bytes(), &document); err != nil {
		t.Fatalf("%v: %s", err, w.Body)
	}
	versions := map[string]apidiscoveryv2.APIVersionDiscovery{}
	for _, group := range document.Items {
		for _, version := range group.Versions {
			versions[group.Name+"/"+version.Version] = version
		}
	}
	return versions
}

func TestTheMergedDocumentFollowsTheBackend(t *testing.T) {
	r := &replica{}
	merged := discoveryendpoint.NewResourceManager("apis")
	source := newSource(t, upstream.Extensions, r, merged)
	r.set(`"1"`, group("example.com", "v1", "v2"))
	ctx, stop := context.WithCancel(t.Context())
	done := make(chan struct{})
	go func() { source.Run(ctx); close(done) }()

	expect := func(want ...string) {
		t.Helper()
		deadline := time.Now().Add(10 * time.Second)
		for {
			got := slices.Sorted(maps.Keys(list(t, merged)))
			if slices.Equal(got, want) {
				return
			}
			if time.Now().After(deadline) {
				t.Fatalf("the document has %q, want %q", got, want)
			}
			time.Sleep(time.Millisecond)
		}
	}
	expect("example.com/v1", "example.com/v2")
	r.set(`"2"`, group("example.com", "v2"), group("other.example.com", "v1"))
	source.Kick()
	expect("example.com/v2", "other.example.com/v1")

	// A client that waits for one that is served finds it then, and none waits long for one that is not.
	r.set(`"3"`, group("new.example.com", "v1"))
	source.Await(t.Context(), schema.GroupVersion{Group: "new.example.com", Version: "v1"})
	if _, there := list(t, merged)["new.example.com/v1"]; !there {
		t.Error("it was not waited for")
	}
	source.Await(t.Context(), schema.GroupVersion{Group: "missing.example.com", Version: "v1"})
	stop()
	<-done
}

func TestWhoAwaitsAGroupVersionFindsItsNewResources(t *testing.T) {
	r := &replica{}
	merged := discoveryendpoint.NewResourceManager("apis")
	source := newSource(t, upstream.Extensions, r, merged)
	of := func(resources ...string) apidiscoveryv2.APIGroupDiscovery {
		g := group("example.com", "v1")
		g.Versions[0].Resources = nil
		for _, name := range resources {
			g.Versions[0].Resources = append(g.Versions[0].Resources, apidiscoveryv2.APIResourceDiscovery{Resource: name})
		}
		return g
	}
	r.set(`"1"`, of("a"))
	require.NoError(t, source.fetch(t.Context()))
	ctx, stop := context.WithCancel(t.Context())
	done := make(chan struct{})
	go func() { source.Run(ctx); close(done) }()
	t.Cleanup(func() { stop(); <-done })

	awaited := schema.GroupVersion{Group: "example.com", Version: "v1"}
	source.Await(t.Context(), awaited) // the first fetch of Run is over
	for i, resources := range [][]string{{"a", "b"}, {"a", "b", "c"}, {"c"}} {
		r.set(fmt.Sprintf("%q", "new"+strconv.Itoa(i)), of(resources...))
		source.Await(t.Context(), awaited)
		var got []string
		for _, resource := range list(t, merged)["example.com/v1"].Resources {
			got = append(got, resource.Resource)
		}
		require.Equal(t, resources, got)
	}
}

func TestExtensionsCannotTakeThePlaceOfCore(t *testing.T) {
	r, merged := &replica{}, discoveryendpoint.NewResourceManager("apis")
	newSource(t, upstream.Core, r, merged).merge(&apidiscoveryv2.APIGroupDiscoveryList{Items: []apidiscoveryv2.APIGroupDiscovery{group("apps", "v1")}})
	want := list(t, merged)["apps/v1"]
	liar := newSource(t, upstream.Extensions, r, merged)
	claim := group("apps", "v1")
	claim.Versions[0].Resources[0].Resource = "lies"
	for _, claims := range [][]apidiscoveryv2.APIGroupDiscovery{{claim}, nil} {
		liar.merge(&apidiscoveryv2.APIGroupDiscoveryList{Items: claims})
		require.Equal(t, want, list(t, merged)["apps/v1"])
	}
}

func TestTheLastKnownGoodStaysCurrentWhileTheBackendIsAway(t *testing.T) {
	r := &replica{}
	merged := discoveryendpoint.NewResourceManager("apis")
	source := newSource(t, upstream.Core, r, merged)
	r.set(`"1"`, group("apps", "v1"))
	require.NoError(t, source.fetch(t.Context()))
	r.stop()
	if err := source.fetch(t.Context()); err == nil {
		t.Error("a backend that answers 503 gave a document")
	}
	if got := list(t, merged)["apps/v1"]; got.Freshness != apidiscoveryv2.DiscoveryFreshnessCurrent || len(got.Resources) != 1 {
		t.Errorf("apps/v1 is %+v", got)
	}
}

func TestWhatWasNeverSeenIsStaleAndWhatIsGoneIsRemoved(t *testing.T) {
	r := &replica{}
	merged := discoveryendpoint.NewResourceManager("apis")
	source := newSource(t, upstream.Extensions, r, merged)
	source.Expect(schema.GroupVersion{Group: "example.com", Version: "v1"})
	source.Expect(schema.GroupVersion{Group: "gone.example.com", Version: "v1"})
	if got := list(t, merged)["example.com/v1"].Freshness; got != apidiscoveryv2.DiscoveryFreshnessStale {
		t.Errorf("before the backend was heard, example.com/v1 is %q", got)
	}
	if source.Fetched() {
		t.Error("an expectation counts as fetched")
	}

	r.set(`"1"`, group("example.com", "v1"))
	require.NoError(t, source.fetch(t.Context()))
	source.Expect(schema.GroupVersion{Group: "late.example.com", Version: "v1"})
	got := list(t, merged)
	if len(got) != 1 || got["example.com/v1"].Freshness != apidiscoveryv2.DiscoveryFreshnessCurrent {
		t.Errorf("the document has %v", got)
	}
}

func TestCRDsChangeNothingThatCoreServes(t *testing.T) {
	core, extensions := &replica{}, &replica{}
	merged := discoveryendpoint.NewResourceManager("apis")
	sources := []*Source{newSource(t, upstream.Core, core, merged), newSource(t, upstream.Extensions, extensions, merged)}
	expect := func(when string, want ...string) {
		t.Helper()
		for _, source := range sources {
			require.NoError(t, source.fetch(t.Context()))
		}
		got := list(t, merged)
		require.Equal(t, want, slices.Sorted(maps.Keys(got)), when)
		require.Equal(t, "Thing", got["apps/v1"].Resources[0].ResponseKind.Kind, when)
	}
	foos := func(name string, versions ...string) apidiscoveryv2.APIGroupDiscovery {
		g := group(name, versions...)
		for i := range g.Versions {
			g.Versions[i].Resources = []apidiscoveryv2.APIResourceDiscovery{{Resource: "foos", ResponseKind: &metav1.GroupVersionKind{Kind: "Foo"}}}
		}
		return g
	}
	core.set(`"1"`, group("apps", "v1"))
	extensions.set(`"1"`, group("apiextensions.k8s.io", "v1"), foos("apps", "v1", "v2"), foos("", "v1"))
	expect("with CRDs in groups of core", "apiextensions.k8s.io/v1", "apps/v1", "apps/v2")
	extensions.set(`"2"`, group("apiextensions.k8s.io", "v1"))
	expect("without them", "apiextensions.k8s.io/v1", "apps/v1")
}

func TestAGroupVersionOfSeveralBackendsIsShownAsItsOwnersSay(t *testing.T) {
	merged := discoveryendpoint.NewResourceManager("apis")
	owner := map[string]string{"a.example.com": "one", "b.example.com": "two"}
	resources := map[string]string{"one": "ones", "two": "twos"}
	sources := map[string]*Source{}
	pki := newTrust(t)
	for rank, name := range []string{"one", "two"} {
		sources[name] = NewSource(Config{
			Backend: newBackend(t, name, pki), Merged: merged, Rank: rank + 1,
			Shows:    func(gv schema.GroupVersion) bool { return owner[gv.Group] == name },
			OnMerged: func(map[schema.GroupVersionResource]bool) {},
		})
		document := apidiscoveryv2.APIGroupDiscoveryList{Items: []apidiscoveryv2.APIGroupDiscovery{group("a.example.com", "v1"), group("b.example.com", "v1")}}
		for _, g := range document.Items {
			g.Versions[0].Resources[0].Resource = resources[name]
		}
		sources[name].merge(&document)
	}
	shown := func() map[string]string {
		found := map[string]string{}
		for gv, version := range list(t, merged) {
			found[gv] = version.Resources[0].Resource
		}
		return found
	}
	require.Equal(t, map[string]string{"a.example.com/v1": "ones", "b.example.com/v1": "twos"}, shown())

	owner["a.example.com"] = "two"
	for _, source := range sources {
		source.Reconsider(schema.GroupVersion{Group: "a.example.com", Version: "v1"})
	}
	require.Equal(t, map[string]string{"a.example.com/v1": "twos", "b.example.com/v1": "twos"}, shown())

	delete(owner, "b.example.com")
	for _, source := range sources {
		source.Reconsider(schema.GroupVersion{Group: "b.example.com", Version: "v1"})
		source.Expect(schema.GroupVersion{Group: "b.example.com", Version: "v1"})
	}
	require.Equal(t, map[string]string{"a.example.com/v1": "twos"}, shown())
}
