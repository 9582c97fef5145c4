// Copyright The Tripod Authors.
// SPDX-License-Identifier: Apache-2.0

package discovery

import (
	"context"
	"crypto/tls"
	"encoding/json"
	"maps"
	"net/http"
	"net/http/httptest"
	"slices"
	"sync"
	"testing"
	"time"

	apidiscoveryv2 "k8s.io/api/apidiscovery/v2"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	discoveryendpoint "k8s.io/apiserver/pkg/endpoints/discovery/aggregated"

	"github.com/tripod-k8s/tripod/internal/hop/trust"
	"github.com/tripod-k8s/tripod/local/certs"
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

// newSource returns a source for a backend whose one replica is the given one.
func newSource(t *testing.T, name string, r *replica, merged discoveryendpoint.ResourceManager) *Source {
	t.Helper()
	store, err := certs.Open(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	ca, err := store.Authority("ca", "ca")
	if err != nil {
		t.Fatal(err)
	}
	leaf := certs.Leaf{CommonName: name, DNSNames: []string{name + ".tripod-system.svc"}, Server: true, Client: true}
	if _, err := ca.Ensure("service", leaf); err != nil {
		t.Fatal(err)
	}
	cert, err := tls.LoadX509KeyPair(store.CertFile("service"), store.KeyFile("service"))
	if err != nil {
		t.Fatal(err)
	}
	server := httptest.NewUnstartedServer(r)
	server.TLS = &tls.Config{Certificates: []tls.Certificate{cert}}
	server.EnableHTTP2 = true
	server.StartTLS()
	t.Cleanup(server.Close)
	b, err := upstream.New(upstream.Config{Name: name, Servers: []string{server.URL}, Trust: trust.Options{
		CAFile: ca.File(), CertFile: store.CertFile("service"), KeyFile: store.KeyFile("service"),
	}})
	if err != nil {
		t.Fatal(err)
	}
	return NewSource(b, merged)
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

	// Who waits for one that is served finds it then, and nobody waits long for one that is not.
	r.set(`"3"`, group("new.example.com", "v1"))
	source.Await(t.Context(), schema.GroupVersion{Group: "new.example.com", Version: "v1"})
	if _, there := list(t, merged)["new.example.com/v1"]; !there {
		t.Error("it was not waited for")
	}
	source.Await(t.Context(), schema.GroupVersion{Group: "missing.example.com", Version: "v1"})
	stop()
	<-done
}

func TestTheLastKnownGoodStaysCurrentWhileTheBackendIsAway(t *testing.T) {
	r := &replica{}
	merged := discoveryendpoint.NewResourceManager("apis")
	source := newSource(t, upstream.Core, r, merged)
	r.set(`"1"`, group("apps", "v1"))
	if err := source.fetch(t.Context()); err != nil {
		t.Fatal(err)
	}
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
	if source.Seen() {
		t.Error("an expectation counts as seen")
	}

	r.set(`"1"`, group("example.com", "v1"))
	if err := source.fetch(t.Context()); err != nil {
		t.Fatal(err)
	}
	source.Expect(schema.GroupVersion{Group: "late.example.com", Version: "v1"})
	got := list(t, merged)
	if len(got) != 1 || got["example.com/v1"].Freshness != apidiscoveryv2.DiscoveryFreshnessCurrent {
		t.Errorf("the document has %v", got)
	}
}
