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

// freshFor is how long other replicas may take to get a new custom resource. They take much less.
const freshFor = 30 * time.Second

// maxFirst limits how many resources FirstReplicas remembers, in case a replica claims more and more. Real CRDs do not appear that fast.
const maxFirst = 10_000

// FirstReplicas remembers which replica had a new custom resource first.
type FirstReplicas struct {
	mu         sync.Mutex
	byResource map[schema.GroupResource]first
}

type first struct {
	address string
	uid     string
	since   time.Time
}

// NewFirstReplicas returns FirstReplicas that knows no resource.
func NewFirstReplicas() *FirstReplicas {
	return &FirstReplicas{byResource: map[schema.GroupResource]first{}}
}

// Of returns the replica that had a custom resource first. It returns false after freshFor, because then all replicas have it.
func (f *FirstReplicas) Of(resource schema.GroupResource) (address string, ok bool) {
	f.mu.Lock()
	defer f.mu.Unlock()
	had, ok := f.byResource[resource]
	if !ok || time.Since(had.since) > freshFor {
		return "", false
	}
	return had.address, true
}

// note records that a replica serves these resources.
func (f *FirstReplicas) note(address string, established []*backendv1.Established) {
	if f == nil {
		return
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	if len(f.byResource)+len(established) > maxFirst {
		maps.DeleteFunc(f.byResource, func(_ schema.GroupResource, had first) bool { return time.Since(had.since) > freshFor })
	}
	for _, e := range established[:min(len(established), maxFirst-len(f.byResource))] {
		resource := schema.GroupResource{Group: e.GetGroup(), Resource: e.GetResource()}
		if f.byResource[resource].uid != e.GetUid() {
			f.byResource[resource] = first{address: address, uid: e.GetUid(), since: time.Now()}
		}
	}
}
