// Copyright The Tripod Authors.
// SPDX-License-Identifier: Apache-2.0

package backend

import (
	"context"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/apiserver/pkg/authentication/user"
	"k8s.io/apiserver/pkg/endpoints/request"
	"k8s.io/klog/v2"
	"k8s.io/streaming/pkg/httpstream"

	"github.com/tripod-k8s/tripod/internal/servicetrust"
)

const (
	// probeInterval is how often a replica is asked whether it is ready.
	probeInterval = 500 * time.Millisecond
	probeTimeout  = 2 * time.Second
)

// replica is one process of a backend.
type replica struct {
	// host is host:port.
	host string
	// multiplexed carries plain requests, over HTTP/2.
	multiplexed http.RoundTripper
	// separate carries requests over HTTP/1.1 that must not share a connection with others: those that
	// turn into a tunnel, and anonymous ones, after which an API server closes an HTTP/2 connection
	// (CVE-2023-44487). The aggregator does the latter to the client's own.
	separate http.RoundTripper

	state atomic.Pointer[replicaState]
}

type replicaState struct {
	ready bool
	// message says why the replica is not ready.
	message string
}

func (r *replica) roundTrip(req *http.Request) (*http.Response, error) {
	out := *req
	target := *req.URL
	target.Scheme, target.Host = "https", r.host
	out.URL, out.Host = &target, r.host
	if httpstream.IsUpgradeRequest(req) || isAnonymous(req) {
		return r.separate.RoundTrip(&out)
	}
	return r.multiplexed.RoundTrip(&out)
}

// isAnonymous reports whether an API server takes the sender for unauthenticated, by its rule.
func isAnonymous(req *http.Request) bool {
	sender, ok := request.UserFrom(req.Context())
	return ok && (sender.GetName() == user.Anonymous || slices.Contains(sender.GetGroups(), user.AllUnauthenticated))
}

// probe asks the replica whether it is ready.
func (r *replica) probe(ctx context.Context) *replicaState {
	ctx, cancel := context.WithTimeout(ctx, probeTimeout)
	defer cancel()
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, "/readyz", nil)
	if err != nil {
		return &replicaState{message: err.Error()}
	}
	servicetrust.SpeakAsAggregator(req)
	resp, err := r.roundTrip(req)
	if err != nil {
		return &replicaState{message: err.Error()}
	}
	defer resp.Body.Close() //nolint:errcheck // nothing is lost with an unread probe
	if resp.StatusCode != http.StatusOK {
		return &replicaState{message: fmt.Sprintf("/readyz answers %s", resp.Status)}
	}
	return &replicaState{ready: true}
}

// Run probes the replicas until the context ends, and tells subscribers of changes.
func (b *Backend) Run(ctx context.Context) {
	var probes sync.WaitGroup
	for _, r := range b.replicas {
		probes.Go(func() {
			wait.UntilWithContext(ctx, func(ctx context.Context) { b.observe(r, r.probe(ctx)) }, probeInterval)
		})
	}
	probes.Wait()
}

func (b *Backend) observe(r *replica, now *replicaState) {
	before := r.state.Swap(now)
	if now.ready {
		b.wasReady.Store(true)
	}
	if *before == *now {
		return
	}
	if before.ready != now.ready {
		klog.InfoS("Replica changed", "backend", b.name, "replica", r.host, "ready", now.ready, "reason", now.message)
	}
	b.mu.Lock()
	subscribers := b.subscribers
	b.mu.Unlock()
	for _, notify := range subscribers {
		notify()
	}
}

// Subscribe calls the function whenever the state of a replica changes. The function must not block.
func (b *Backend) Subscribe(notify func()) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.subscribers = append(b.subscribers, notify)
}

// Ready reports whether at least one replica is ready, and if none is, why not, replica by replica.
func (b *Backend) Ready() (bool, string) {
	var reasons []string
	for _, r := range b.replicas {
		state := r.state.Load()
		if state.ready {
			return true, ""
		}
		reasons = append(reasons, r.host+": "+state.message)
	}
	return false, strings.Join(reasons, "; ")
}

// ReadyOnce returns nil when a replica was ever found ready, and otherwise why none is.
func (b *Backend) ReadyOnce() error {
	if b.wasReady.Load() {
		return nil
	}
	_, why := b.Ready()
	return fmt.Errorf("%s was not ready yet: %s", b.name, why)
}
