// Copyright The Tripod Authors.
// SPDX-License-Identifier: Apache-2.0

package feeds

import (
	"maps"
	"sync"
	"time"

	"k8s.io/apimachinery/pkg/runtime/schema"

	backendv1 "github.com/tripod-k8s/tripod/proto/backend/v1"
)

// freshFor is how long other replicas may take to have a custom resource. They take much less.
const freshFor = 30 * time.Second

// maxFirsts bounds how many resources are remembered, for a replica that claims more and more. CRDs do not come that fast.
const maxFirsts = 10_000

// Firsts remembers which replica had a custom resource first.
type Firsts struct {
	mu         sync.Mutex
	byResource map[schema.GroupResource]first
}

type first struct {
	address string
	uid     string
	since   time.Time
}

// NewFirsts returns Firsts of no resource.
func NewFirsts() *Firsts {
	return &Firsts{byResource: map[schema.GroupResource]first{}}
}

// With returns the replica that had a custom resource first, if that was within freshFor. Later all replicas have it.
func (f *Firsts) With(resource schema.GroupResource) (address string, ok bool) {
	f.mu.Lock()
	defer f.mu.Unlock()
	had, ok := f.byResource[resource]
	if !ok || time.Since(had.since) > freshFor {
		return "", false
	}
	return had.address, true
}

// note hears that resources are usable at the replica at an address.
func (f *Firsts) note(address string, established []*backendv1.Established) {
	if f == nil {
		return
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	if len(f.byResource)+len(established) > maxFirsts {
		maps.DeleteFunc(f.byResource, func(_ schema.GroupResource, had first) bool { return time.Since(had.since) > freshFor })
	}
	for _, e := range established[:min(len(established), maxFirsts-len(f.byResource))] {
		resource := schema.GroupResource{Group: e.GetGroup(), Resource: e.GetResource()}
		if f.byResource[resource].uid != e.GetUid() {
			f.byResource[resource] = first{address: address, uid: e.GetUid(), since: time.Now()}
		}
	}
}
