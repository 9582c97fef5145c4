// Copyright The Tripod Authors.
// SPDX-License-Identifier: Apache-2.0

// Package discovery merges the groups, versions and resources of all servers into one document for clients.
//
// The package merges the aggregated form (KEP-3352) from the documents of the backends. It fetches a
// document when a feed says that it may have changed. kube-aggregator's own discovery manager adds aggregated
// API servers. The legacy form follows from the APIServices alone.
//
// While a backend is away, its last document stays as it was, because client-go drops groups that are
// marked Stale. Only group-versions that were never seen are Stale.
package discovery

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"sync"
	"time"

	apidiscoveryv2 "k8s.io/api/apidiscovery/v2"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	utiljson "k8s.io/apimachinery/pkg/util/json"
	discoveryendpoint "k8s.io/apiserver/pkg/endpoints/discovery/aggregated"
	"k8s.io/klog/v2"

	"github.com/tripod-k8s/tripod/base/broadcast"
	"github.com/tripod-k8s/tripod/base/hop/parts"
	"github.com/tripod-k8s/tripod/base/hop/recovery"
	"github.com/tripod-k8s/tripod/services/aggregator/apis/apiservices"
	"github.com/tripod-k8s/tripod/services/aggregator/upstream"
)

// acceptAggregated asks for the aggregated form.
const acceptAggregated = "application/json;g=apidiscovery.k8s.io;v=v2;as=APIGroupDiscoveryList"

const (
	fetchTimeout = 10 * time.Second
	// maxDocument bounds the size of a document. Thousands of CRDs make a few megabytes.
	maxDocument = 16 << 20
	// refreshInterval is how often a document is revalidated without a reason. A change is a reason.
	refreshInterval = 30 * time.Second
	// retryInterval is how soon a backend that did not answer is asked again.
	retryInterval = 250 * time.Millisecond
)

// maxParts bounds the parts of a document: each object and element may become a struct of 300 bytes. A resource has about 20 of them, and
// 45 values, so there is room for 10,000.
var maxParts = parts.Limits{Values: 500_000, Elements: 200_000}

// kickSchedule are the pauses between the fetches after a Kick, which can come before the backend has
// rendered the change.
var kickSchedule = []time.Duration{
	10 * time.Millisecond, 20 * time.Millisecond, 40 * time.Millisecond, 80 * time.Millisecond, 160 * time.Millisecond,
	320 * time.Millisecond, 640 * time.Millisecond,
}

// Config says what a Source merges, and where.
type Config struct {
	Backend *upstream.Backend
	Merged  discoveryendpoint.ResourceManager
	// Rank is the place of the backend in the list of additional backends, from 1 on. It is 0 for core and extensions.
	Rank int
	// Shows reports whether clients may find a group-version of the backend. It is false for one that another backend serves.
	Shows func(schema.GroupVersion) bool
	// Legacy is set if the backend serves /api. The merged document does not have it.
	Legacy bool
	// OnMerged is called with the resources in the document, and with subresources in the form pods/log.
	OnMerged func(map[schema.GroupVersionResource]bool)
}

// Source keeps the discovery document of one backend in the merged one.
type Source struct {
	Config
	// kicked asks for fetches over some time, asked for one.
	kicked, asked chan struct{}

	mu      sync.Mutex
	fetched bool
	etag    string
	// begun counts fetches. current is the number of the last one that succeeded.
	begun, current int
	// changed wakes Await when a fetch succeeds or a group-version is shown.
	changed broadcast.Broadcast
	// document is the last one, by group-version.
	document map[metav1.GroupVersion]apidiscoveryv2.APIVersionDiscovery
	// served are the group-versions of this backend in the merged document.
	served map[metav1.GroupVersion]bool
}

// NewSource returns the source of a backend's document.
func NewSource(config Config) *Source {
	s := &Source{
		Config: config,
		kicked: make(chan struct{}, 1),
		asked:  make(chan struct{}, 1),
		served: map[metav1.GroupVersion]bool{},
	}
	s.Backend.Subscribe(s.Kick)
	return s
}

// Kick has the document fetched again, because it may have changed.
func (s *Source) Kick() { signal(s.kicked) }

func signal(wakes chan<- struct{}) {
	select {
	case wakes <- struct{}{}:
	default:
	}
}

// Fetched reports whether the document was fetched at least once.
func (s *Source) Fetched() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.fetched
}

// awaitTimeout bounds the time for which one form of discovery waits for another.
const awaitTimeout = time.Second

// Await waits until the merged document has what the backend now says of a group-version that it serves, but not longer than awaitTimeout.
// A client that finds a resource in one form of discovery expects it in the other. A group-version that is there may lack a new resource,
// so Await always waits for a fetch that begins after the call.
func (s *Source) Await(ctx context.Context, gv schema.GroupVersion) {
	ctx, cancel := context.WithTimeout(ctx, awaitTimeout)
	defer cancel()
	s.mu.Lock()
	before := s.begun
	s.mu.Unlock()
	signal(s.asked)
	for {
		s.mu.Lock()
		ever, fetched, there, changed := s.fetched, s.current > before, s.served[metav1.GroupVersion(gv)], s.changed.Next()
		s.mu.Unlock()
		switch {
		case !ever, fetched && there:
			return
		case fetched:
			s.Kick()
		}
		select {
		case <-changed:
		case <-ctx.Done():
			return
		}
	}
}

// Expect lists a group-version as Stale until the document was fetched once. So clients know that it exists,
// and that its resources are not known yet.
func (s *Source) Expect(gv schema.GroupVersion) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.fetched || s.served[metav1.GroupVersion(gv)] || !s.Shows(gv) {
		return
	}
	s.put(gv.Group, apidiscoveryv2.APIVersionDiscovery{Version: gv.Version, Freshness: apidiscoveryv2.DiscoveryFreshnessStale})
}

// Reconsider looks again whether clients may find a group-version of the backend.
func (s *Source) Reconsider(gv schema.GroupVersion) {
	s.mu.Lock()
	defer s.mu.Unlock()
	of := metav1.GroupVersion(gv)
	version, there := s.document[of]
	switch shown := s.Shows(gv); {
	case !shown && s.served[of]:
		delete(s.served, of)
		s.origin(of).RemoveGroupVersion(of)
	case shown && there && !s.served[of]:
		s.put(gv.Group, version)
		s.changed.Send()
	}
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
			// The time of a failure says nothing about the cost of a document.
			took = 0
			klog.V(2).InfoS("Discovery of a backend could not be fetched", "backend", s.Backend.Name(), "err", err)
			wait = retryInterval
		case len(pending) > 0:
			wait, pending = pending[0], pending[1:]
		}
		// Fetching takes at most a quarter of the time, however slow the backend is.
		wait = max(wait, 3*took)

		timer := time.NewTimer(wait)
		pause := 3 * took
		select {
		case <-ctx.Done():
		case <-timer.C:
			pause = 0
		case <-s.asked:
		case <-s.kicked:
			pending = kickSchedule
		}
		timer.Stop()
		select {
		case <-ctx.Done():
			return
		case <-time.After(pause):
		}
	}
}

// fetch revalidates the document and merges it if it changed.
func (s *Source) fetch(ctx context.Context) (err error) {
	defer recovery.ToError("discovery of "+s.Backend.Name(), &err)
	ctx, cancel := context.WithTimeout(ctx, fetchTimeout)
	defer cancel()
	s.mu.Lock()
	s.begun++
	number := s.begun
	s.mu.Unlock()
	list, etag, err := s.get(ctx, "/apis", s.etag)
	if err != nil {
		return err
	}
	if list != nil {
		if s.Legacy {
			legacy, _, err := s.get(ctx, "/api", "")
			if err != nil {
				return err
			}
			list.Items = append(list.Items, legacy.Items...)
		}
		s.merge(list)
		s.etag = etag
	}
	s.succeeded(number)
	return nil
}

// get returns the document at a path and its ETag. The document is nil if it still has the ETag from before.
func (s *Source) get(ctx context.Context, path, etag string) (*apidiscoveryv2.APIGroupDiscoveryList, string, error) {
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, path, nil)
	if err != nil {
		return nil, "", err
	}
	req.Header.Set("Accept", acceptAggregated)
	req.Header.Set("User-Agent", "tripod-aggregator/discovery")
	if etag != "" {
		req.Header.Set("If-None-Match", etag)
	}
	resp, err := s.Backend.AsAggregator().RoundTrip(req)
	if err != nil {
		return nil, "", err
	}
	defer resp.Body.Close() //nolint:errcheck // read to its end or not needed
	switch {
	case resp.StatusCode == http.StatusNotModified && etag != "":
		return nil, etag, nil
	case resp.StatusCode != http.StatusOK:
		return nil, "", fmt.Errorf("%s answers %s", path, resp.Status)
	}
	list, err := decode(resp.Body)
	if err != nil {
		return nil, "", fmt.Errorf("%s: %w", path, err)
	}
	return list, resp.Header.Get("Etag"), nil
}

// succeeded wakes up those who await a fetch.
func (s *Source) succeeded(number int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.current = number
	s.changed.Send()
}

func decode(document io.Reader) (*apidiscoveryv2.APIGroupDiscoveryList, error) {
	body, err := io.ReadAll(io.LimitReader(document, maxDocument+1))
	if err != nil {
		return nil, err
	}
	if len(body) > maxDocument {
		return nil, fmt.Errorf("the document is larger than %d bytes", maxDocument)
	}
	if err := maxParts.Check(body); err != nil {
		return nil, err
	}
	list := &apidiscoveryv2.APIGroupDiscoveryList{}
	if err := utiljson.Unmarshal(body, list); err != nil {
		return nil, err
	}
	if list.Kind != "APIGroupDiscoveryList" {
		return nil, fmt.Errorf("the document is a %q, not the aggregated form of discovery", list.Kind)
	}
	return list, nil
}

// merge replaces what this backend has in the merged document.
func (s *Source) merge(list *apidiscoveryv2.APIGroupDiscoveryList) {
	s.mu.Lock()
	defer s.mu.Unlock()
	before := s.served
	s.served = make(map[metav1.GroupVersion]bool, len(before))
	s.document = make(map[metav1.GroupVersion]apidiscoveryv2.APIVersionDiscovery, len(before))
	resources := map[schema.GroupVersionResource]bool{}
	for _, group := range list.Items {
		for _, version := range group.Versions {
			gv := schema.GroupVersion{Group: group.Name, Version: version.Version}
			s.document[metav1.GroupVersion(gv)] = version
			if s.Shows(gv) {
				s.put(group.Name, version)
			}
			addResources(resources, gv, version.Resources)
		}
	}
	s.OnMerged(resources)
	for gv := range before {
		if !s.served[gv] {
			s.origin(gv).RemoveGroupVersion(gv)
		}
	}
	s.fetched = true
}

func addResources(to map[schema.GroupVersionResource]bool, gv schema.GroupVersion, resources []apidiscoveryv2.APIResourceDiscovery) {
	for _, resource := range resources {
		to[gv.WithResource(resource.Resource)] = true
		for _, sub := range resource.Subresources {
			to[gv.WithResource(resource.Resource+"/"+sub.Subresource)] = true
		}
	}
}

func (s *Source) put(group string, version apidiscoveryv2.APIVersionDiscovery) {
	if group == "" {
		return // the document of /api, of which core answers requests
	}
	gv := metav1.GroupVersion{Group: group, Version: version.Version}
	s.served[gv] = true
	origin := s.origin(gv)
	origin.AddGroupVersion(group, version)
	priority := apiservices.PriorityOf(schema.GroupVersion(gv), s.Backend.Name())
	origin.SetGroupVersionPriority(gv, int(priority.Group), int(priority.Version))
}

// origin is the part of the merged document that kube-apiserver keeps the group-version in. If
// two parts have the same group-version, the built-in one wins over the CRD's. Each additional backend has a part of its own.
func (s *Source) origin(gv metav1.GroupVersion) discoveryendpoint.ResourceManager {
	source := discoveryendpoint.BuiltinSource
	switch {
	case s.Rank > 0:
		source = discoveryendpoint.CRDSource + discoveryendpoint.Source(s.Rank)
	case s.Backend.Name() == upstream.Extensions && gv.Group != apiextensionsv1.GroupName:
		source = discoveryendpoint.CRDSource
	}
	return s.Merged.WithSource(source)
}
