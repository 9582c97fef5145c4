// Copyright The Tripod Authors.
// SPDX-License-Identifier: Apache-2.0

package loopback

import (
	"sync/atomic"

	"k8s.io/apimachinery/pkg/runtime/schema"

	backendv1 "github.com/tripod-k8s/tripod/proto/backend/v1"
)

// Served is the set of group-versions that a service announces in its feed.
type Served struct {
	// before answers until the set is known.
	before func(schema.GroupVersion) bool
	known  atomic.Pointer[map[schema.GroupVersion]bool]
}

// NewServed returns a set that asks before until Set is called.
func NewServed(before func(schema.GroupVersion) bool) *Served {
	return &Served{before: before}
}

// Set replaces the set by the group-versions of a catalog.
func (s *Served) Set(catalog *backendv1.Catalog) {
	known := make(map[schema.GroupVersion]bool, len(catalog.GetGroupVersions()))
	for _, gv := range catalog.GetGroupVersions() {
		known[schema.GroupVersion{Group: gv.GetGroup(), Version: gv.GetVersion()}] = true
	}
	s.known.Store(&known)
}

// Has reports whether a group-version is served.
func (s *Served) Has(gv schema.GroupVersion) bool {
	if known := s.known.Load(); known != nil {
		return (*known)[gv]
	}
	return s.before(gv)
}
