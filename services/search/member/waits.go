// Copyright The Tripod Authors.
// SPDX-License-Identifier: Apache-2.0

package member

import (
	"cmp"
	"iter"
	"slices"
	"time"

	"k8s.io/apimachinery/pkg/runtime/schema"
	clientgoscheme "k8s.io/client-go/kubernetes/scheme"

	"github.com/tripod-k8s/tripod/services/search/store/streams"
)

// watchMemory is the most that a watch takes, with what has come of it and search has not read, and its part of a connection: 106 KiB by
// HTTP/2 with as few requests on a connection as may be, and 81 KiB by HTTP/1.1 and what the kernel keeps. A quiet one takes 33 KiB.
const watchMemory = 114 << 10

// WatchesMemory is the most that the watches of all members take.
func (l *Limits) WatchesMemory() int64 { return int64(l.Watches) * watchMemory }

// inOrder returns kinds in the order in which their streams begin, and in the reverse of which they end for others: those that decide what
// readers see, then others of Kubernetes, and then others by their names.
func inOrder(kinds iter.Seq[streams.Kind]) []streams.Kind {
	return slices.SortedFunc(kinds, func(a, b streams.Kind) int {
		return cmp.Or(cmp.Compare(rank(a), rank(b)), cmp.Compare(a.Group, b.Group), cmp.Compare(a.Resource, b.Resource),
			cmp.Compare(a.Version, b.Version))
	})
}

func rank(k streams.Kind) int {
	switch {
	case streams.DecidesRights(k.GroupVersionResource):
		return 0
	case clientgoscheme.Scheme.IsGroupRegistered(k.Group):
		return 1
	}
	return 2
}

// waiting is a stream that waits for a place.
type waiting struct {
	*place
	status Status
}

// enter returns a place for the watches of a stream, or nil if it has to wait for one. Only adjust calls it: it is called again when the
// member gets places.
func (m *Member) enter(kind streams.Kind) *place {
	m.mu.Lock()
	defer m.mu.Unlock()
	resource := kind.GroupVersionResource
	one, waits := m.waits[resource]
	if !waits {
		limitsHit.WithLabelValues(errCrowded.Limit).Inc()
		one.status = Status{
			Kind: kind, Phase: Failed, Reason: LimitReached, Message: errCrowded.Error(), Since: time.Now(),
		}
		one.place = m.door.watches.add(m.door.party, &place{weight: max(len(m.namespaces), 1), granted: m.wake})
	}
	select {
	case <-one.given:
		delete(m.waits, resource)
		return one.place
	default:
		m.waits[resource] = one
		return nil
	}
}

// wake has adjust run again.
func (m *Member) wake() {
	select {
	case m.granted <- struct{}{}:
	default:
	}
}

// forgo gives up the places of streams that do not count any more, or of all.
func (m *Member) forgo(gone func(schema.GroupVersionResource) bool) {
	m.mu.Lock()
	defer m.mu.Unlock()
	for resource, one := range m.waits {
		if gone(resource) {
			one.leave()
			delete(m.waits, resource)
		}
	}
}

// errCrowded is why a stream waits, or had to end.
var errCrowded = &LimitError{Limit: "watches", Flag: "member-watches",
	Message: "the watches of all clusters are as many as there may be, and this cluster has its share of them"}
