// Copyright The Tripod Authors.
// SPDX-License-Identifier: Apache-2.0

package member

import (
	"cmp"
	"context"
	"iter"
	"maps"
	"slices"
	"time"

	"k8s.io/apimachinery/pkg/runtime/schema"
	clientgoscheme "k8s.io/client-go/kubernetes/scheme"
	"k8s.io/klog/v2"

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

// waiting is a stream that waits for a slot.
type waiting struct {
	*slot
	status Status
	// closed is set once readers have no rights by what the stream has copied before.
	closed bool
}

// enter returns a slot for the watches of a stream, or nil if it has to wait for one. Only adjust calls it: it is called again when the
// member gets slots.
func (m *Member) enter(kind streams.Kind) *slot {
	m.mu.Lock()
	defer m.mu.Unlock()
	resource := kind.GroupVersionResource
	one, waits := m.waits[resource]
	if !waits {
		limitsHit.WithLabelValues(errCrowded.Limit).Inc()
		one.status = Status{
			Kind: kind, Phase: Failed, Reason: LimitReached, Message: errCrowded.Error(), Since: time.Now(),
		}
		if m.decidesRights(kind) {
			time.AfterFunc(m.limiter.watches.grace, m.wake) // for closeWaiting
		}
	}
	for {
		if one.slot == nil {
			one.slot = m.askFor(kind)
		}
		select {
		case <-one.given:
			if !one.use() { // it came while discovery went on, and others needed it
				one.slot = nil
				continue
			}
			delete(m.waits, resource)
			return one.slot
		default:
			m.waits[resource] = one
			return nil
		}
	}
}

// askFor asks for a slot. Others may get it back before the stream begins: the member decides how long its discovery takes.
func (m *Member) askFor(kind streams.Kind) *slot {
	one := &slot{weight: max(len(m.namespaces), 1), granted: m.wake, last: m.decidesRights(kind)}
	one.end = func() { go one.leave() }
	return m.limiter.watches.add(m.limiter.party, one)
}

// decidesRights reports whether the objects of a kind decide what readers see. They do not if search has those of some namespaces only.
func (m *Member) decidesRights(kind streams.Kind) bool {
	return streams.DecidesRights(kind.GroupVersionResource) && len(m.namespaces) == 0
}

// closeWaiting denies readers what they have by objects whose stream has waited for long: what was copied before may have been revoked.
func (m *Member) closeWaiting(ctx context.Context) {
	for resource, one := range m.waitingRights() {
		if time.Since(one.status.Since) < m.limiter.watches.grace {
			continue
		}
		if err := m.newStream(one.status.Kind).closeWhileWaiting(ctx); err != nil {
			klog.V(2).InfoS("Rights in a cluster cannot be closed yet", "cluster", m.name, "resource", resource, "err", err)
			time.AfterFunc(m.limiter.watches.grace, m.wake)
			continue
		}
		m.mu.Lock()
		if now, waits := m.waits[resource]; waits {
			now.closed = true
			m.waits[resource] = now
		}
		m.mu.Unlock()
	}
}

// waitingRights returns the streams that wait and decide what readers see.
func (m *Member) waitingRights() map[schema.GroupVersionResource]waiting {
	m.mu.Lock()
	defer m.mu.Unlock()
	all := maps.Clone(m.waits)
	maps.DeleteFunc(all, func(_ schema.GroupVersionResource, one waiting) bool {
		return one.closed || !m.decidesRights(one.status.Kind)
	})
	return all
}

// closeWhileWaiting denies all readers what the objects of a stream grant that does not run.
func (s *stream) closeWhileWaiting(ctx context.Context) error {
	target, err := s.store.OpenStream(ctx, s.cluster, s.kind)
	if err != nil {
		return err
	}
	return s.limiter.write(ctx, func() error { return s.store.CloseRights(ctx, target, errCrowded.Error()) })
}

// wake has adjust run again.
func (m *Member) wake() {
	select {
	case m.granted <- struct{}{}:
	default:
	}
}

// forgo gives up the slots of streams that do not count any more, or of all.
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
