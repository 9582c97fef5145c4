// Copyright The Tripod Authors.
// SPDX-License-Identifier: Apache-2.0

// Package discovery tells clients which groups, versions and resources there are, over all servers.
//
// The aggregated form (KEP-3352) is merged from the documents of core and extensions, each fetched
// when a feed says that it may have changed; aggregated API servers are added by kube-aggregator's own
// discovery manager. The legacy form follows from the APIServices alone.
//
// While a backend is away, its last known document stays as it was: client-go drops groups that are
// marked Stale. Stale is only what was never seen.
package discovery

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"sync"
	"time"

	apidiscoveryv2 "k8s.io/api/apidiscovery/v2"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	utiljson "k8s.io/apimachinery/pkg/util/json"
	discoveryendpoint "k8s.io/apiserver/pkg/endpoints/discovery/aggregated"
	"k8s.io/klog/v2"

	"github.com/tripod-k8s/tripod/services/aggregator/apis/apiservices"
	"github.com/tripod-k8s/tripod/services/aggregator/upstream"
)

// acceptAggregated asks for the aggregated form.
const acceptAggregated = "application/json;g=apidiscovery.k8s.io;v=v2;as=APIGroupDiscoveryList"

const (
	fetchTimeout = 10 * time.Second
	// refreshInterval is how often a document is revalidated without a reason. There is one whenever it changes.
	refreshInterval = 30 * time.Second
	// retryInterval is how soon a backend that did not answer is asked again.
	retryInterval = 250 * time.Millisecond
)

// kickSchedule are the pauses between the fetches after a reason to think that the document
// changed: the reason can reach the aggregator before the backend has rendered the change.
var kickSchedule = []time.Duration{
	10 * time.Millisecond, 20 * time.Millisecond, 40 * time.Millisecond, 80 * time.Millisecond, 160 * time.Millisecond,
	320 * time.Millisecond, 640 * time.Millisecond,
}

// Source keeps the discovery document of one backend in the merged one.
type Source struct {
	backend *upstream.Backend
	merged  discoveryendpoint.ResourceManager
	kicked  chan struct{}

	mu   sync.Mutex
	seen bool
	etag string
	// changed is closed, and replaced, when the document is merged anew.
	changed chan struct{}
	// served are the group-versions in the merged document on account of this backend.
	served map[metav1.GroupVersion]bool
}

// NewSource returns the source of a backend's document.
func NewSource(b *upstream.Backend, merged discoveryendpoint.ResourceManager) *Source {
	s := &Source{
		backend: b,
		merged:  merged,
		kicked:  make(chan struct{}, 1),
		changed: make(chan struct{}),
		served:  map[metav1.GroupVersion]bool{},
	}
	b.Subscribe(s.Kick)
	return s
}

// Kick says that the document may have changed.
func (s *Source) Kick() {
	select {
	case s.kicked <- struct{}{}:
	default:
	}
}

// Seen reports whether the document was fetched once.
func (s *Source) Seen() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.seen
}

// awaitTimeout bounds the time for which one form of discovery waits for another.
const awaitTimeout = time.Second

// Await waits until a group-version that the backend serves is in the merged document, for a moment at most. A client that
// was told of it in one form of discovery takes it for wrong not to find it in another.
func (s *Source) Await(ctx context.Context, gv schema.GroupVersion) {
	ctx, cancel := context.WithTimeout(ctx, awaitTimeout)
	defer cancel()
	for {
		s.mu.Lock()
		there, changed := !s.seen || s.served[metav1.GroupVersion(gv)], s.changed
		s.mu.Unlock()
		if there {
			return
		}
		s.Kick()
		select {
		case <-changed:
		case <-ctx.Done():
			return
		}
	}
}

// Expect lists a group-version as Stale until the document was fetched once: clients must know
// that it exists, and that nothing is known about it.
func (s *Source) Expect(gv schema.GroupVersion) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.seen || gv.Group == "" || s.served[metav1.GroupVersion(gv)] {
		return
	}
	s.put(gv.Group, apidiscoveryv2.APIVersionDiscovery{Version: gv.Version, Freshness: apidiscoveryv2.DiscoveryFreshnessStale})
}

// Run keeps the document fresh until the context ends.
func (s *Source) Run(ctx context.Context) {
	var pending []time.Duration
	for {
		started := time.Now()
		err := s.fetch(ctx)
		took := time.Since(started)

		wait := refreshInterval
		switch {
		case ctx.Err() != nil:
			return
		case err != nil:
			// How long a failure took says nothing about what a document costs.
			took = 0
			klog.V(2).InfoS("Discovery of a backend could not be fetched", "backend", s.backend.Name(), "err", err)
			wait = retryInterval
		case len(pending) > 0:
			wait, pending = pending[0], pending[1:]
		}
		// A quarter of the time at most goes into fetching, whatever happens to the backend.
		wait = max(wait, 3*took)

		timer := time.NewTimer(wait)
		select {
		case <-ctx.Done():
			timer.Stop()
			return
		case <-timer.C:
		case <-s.kicked:
			timer.Stop()
			pending = kickSchedule
			select {
			case <-ctx.Done():
				return
			case <-time.After(3 * took):
			}
		}
	}
}

// fetch revalidates the document and merges it if it changed.
func (s *Source) fetch(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, fetchTimeout)
	defer cancel()
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, "/apis", nil)
	if err != nil {
		return err
	}
	req.Header.Set("Accept", acceptAggregated)
	req.Header.Set("User-Agent", "tripod-aggregator/discovery")
	if s.etag != "" {
		req.Header.Set("If-None-Match", s.etag)
	}
	resp, err := s.backend.AsAggregator().RoundTrip(req)
	if err != nil {
		return err
	}
	defer resp.Body.Close() //nolint:errcheck // read to its end or not needed
	switch resp.StatusCode {
	case http.StatusNotModified:
		return nil
	case http.StatusOK:
	default:
		return fmt.Errorf("/apis answers %s", resp.Status)
	}
	body, err := io.ReadAll(resp.Body)
	if err != nil {
		return err
	}
	list := &apidiscoveryv2.APIGroupDiscoveryList{}
	if err := utiljson.Unmarshal(body, list); err != nil {
		return fmt.Errorf("/apis: %w", err)
	}
	if list.Kind != "APIGroupDiscoveryList" {
		return fmt.Errorf("/apis answers a %q, not the aggregated form of discovery", list.Kind)
	}
	s.merge(list)
	s.etag = resp.Header.Get("Etag")
	return nil
}

// merge replaces what this backend has in the merged document.
func (s *Source) merge(list *apidiscoveryv2.APIGroupDiscoveryList) {
	s.mu.Lock()
	defer s.mu.Unlock()
	before := s.served
	s.served = make(map[metav1.GroupVersion]bool, len(before))
	for _, group := range list.Items {
		for _, version := range group.Versions {
			s.put(group.Name, version)
		}
	}
	for gv := range before {
		if !s.served[gv] {
			s.origin(gv).RemoveGroupVersion(gv)
		}
	}
	s.seen = true
	close(s.changed)
	s.changed = make(chan struct{})
}

func (s *Source) put(group string, version apidiscoveryv2.APIVersionDiscovery) {
	gv := metav1.GroupVersion{Group: group, Version: version.Version}
	s.served[gv] = true
	origin := s.origin(gv)
	origin.AddGroupVersion(group, version)
	priority := apiservices.PriorityOf(schema.GroupVersion(gv))
	origin.SetGroupVersionPriority(gv, int(priority.Group), int(priority.Version))
}

// origin is the part of the merged document that kube-apiserver keeps the group-version in: where
// two have the same one, the built-in wins over the CRD.
func (s *Source) origin(gv metav1.GroupVersion) discoveryendpoint.ResourceManager {
	if s.backend.Name() == upstream.Extensions && !apiservices.Builtin(gv.Group) {
		return s.merged.WithSource(discoveryendpoint.CRDSource)
	}
	return s.merged.WithSource(discoveryendpoint.BuiltinSource)
}
