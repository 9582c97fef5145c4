// Copyright The Tripod Authors.
// SPDX-License-Identifier: Apache-2.0

package member

import (
	"sync"
	"time"

	"golang.org/x/time/rate"
)

// RBAC objects must not be late, or the RBAC of their cluster closes. A user who may write them in one namespace could make all of them
// late. So each namespace has a rate of its own, and the namespace closes that has more changes: search writes no more of it until the next
// list, and reading the rest costs a part of what writing does.
const (
	// rightsRate is how many changes that search drops count as one that it writes.
	rightsRate = 4
	// namespaceShare is the part of the rate of a cluster that one namespace has.
	namespaceShare = 8
	// namespacesKept is how many namespaces are known at least before those are forgotten that may have all of their rate.
	namespacesKept = 1000
)

// namespaceRates are those of the namespaces of a member.
type namespaceRates struct {
	limit rate.Limit
	burst int

	mu sync.Mutex
	of map[string]*rate.Limiter
	// most is how many are kept before some are forgotten.
	most int
}

func newNamespaceRates(changes, burst int) *namespaceRates {
	return &namespaceRates{
		limit: rate.Limit(changes) / namespaceShare, burst: max(burst/namespaceShare, 1), of: map[string]*rate.Limiter{}, most: namespacesKept,
	}
}

// allow counts changes, and reports whether the namespace may have as many.
func (r *namespaceRates) allow(namespace string, changes int) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	now := time.Now()
	one := r.of[namespace]
	if one == nil {
		one = rate.NewLimiter(r.limit, r.burst)
		r.forget(now)
		r.of[namespace] = one
	}
	return one.AllowN(now, min(changes, r.burst))
}

// forget forgets namespaces that have had no change for some time.
func (r *namespaceRates) forget(now time.Time) {
	if len(r.of) < r.most {
		return
	}
	for namespace, one := range r.of {
		if one.TokensAt(now) >= float64(r.burst) {
			delete(r.of, namespace)
		}
	}
	r.most = max(2*len(r.of), namespacesKept)
}

// floods returns why an event about an RBAC object is not written, or nil: its namespace has more changes than it may have. Only the first
// one says so in the place of the object.
func (s *stream) floods(namespace string, changes int) (why error, first bool) {
	if namespace == "" || !s.decidesRights() {
		return nil, false
	}
	if !s.flooded[namespace] && s.limiter.namespaces.allow(namespace, changes) {
		return nil, false
	}
	why = &LimitError{Limit: "namespace-changes", Flag: "member-max-changes", Message: "the RBAC objects of the namespace change too often"}
	if first = !s.flooded[namespace]; first {
		limitsHit.WithLabelValues("namespace-changes").Inc()
		s.flooded[namespace] = true
		s.isFlooded.Store(true)
	}
	return why, first
}

// readsAnew has the stream list if it has dropped events.
func (s *stream) readsAnew() {
	if s.isFlooded.Swap(false) {
		clear(s.flooded)
		s.target.ResourceVersion = ""
	}
}
