// Copyright The Tripod Authors.
// SPDX-License-Identifier: Apache-2.0

package link

import (
	"context"
	"net/http"
	"slices"
	"sync"
	"time"

	"k8s.io/klog/v2"

	"github.com/tripod-k8s/tripod/internal/hop/follow"
	"github.com/tripod-k8s/tripod/internal/hop/replicas"
)

const (
	// probeInterval is how often each replica is asked whether it is ready, and probeTimeout how long it may take.
	probeInterval = time.Second
	probeTimeout  = 3 * time.Second
	// patience is how many probes in a row must fail.
	patience = 2
)

// readyz is how a replica is asked. One that does not say whether it is ready is.
var readyz = replicas.Probe{Path: "/readyz", IsReady: func(status int) bool { return !fails(status) }}

// FollowReplicas looks up names of replicas and asks each replica whether it is ready, until the context ends. A replica that is not ready, or
// answers a read with 429 or 5xx, is left if there is another. While none is ready all stays as it is.
func (l *Link) FollowReplicas(ctx context.Context) {
	l.follows.Store(true)
	var looking sync.WaitGroup
	defer looking.Wait()
	looking.Go(func() { l.set.Run(ctx) })
	probes := follow.NewEach(l.probe)
	defer probes.Wait()
	for {
		probes.Set(ctx, l.hosts())
		select {
		case <-ctx.Done():
			return
		case <-l.changed:
		}
	}
}

// probe asks a replica whether it is ready until the context ends.
func (l *Link) probe(ctx context.Context, host string) {
	ticker := time.NewTicker(probeInterval)
	defer ticker.Stop()
	for failures := 0; ; {
		asking, cancel := context.WithTimeout(ctx, probeTimeout)
		err := readyz.Ask(asking, l.replicas, host)
		cancel()
		if ctx.Err() != nil {
			return
		}
		if failures++; err == nil {
			failures = 0
		}
		if l.replicas.probed(host, err == nil, failures >= patience) {
			klog.InfoS("Probed a replica", "service", l.service, "replica", host, "ready", err == nil, "reason", err)
		}
		l.leaveIfUnwell(host)
		select {
		case <-ctx.Done():
			return
		case <-ticker.C:
		}
	}
}

// fails reports whether a status says that a replica is not well.
func fails(status int) bool {
	return status == http.StatusTooManyRequests || status >= http.StatusInternalServerError
}

// leaveIfUnwell leaves a replica that is not ready if another is. Requests may have moved to another before, and left watches behind.
func (l *Link) leaveIfUnwell(host string) {
	if !l.replicas.isUnwell(host) || !l.anotherIsReady(host) {
		return
	}
	l.current.CompareAndSwap(host, l.inOrder()[0])
	if l.replicas.watches(host) > 0 {
		l.replicas.leave(host, "it is not ready")
	}
}

// anotherIsReady reports whether another replica than this one passed its last probe.
func (l *Link) anotherIsReady(host string) bool {
	return slices.ContainsFunc(l.hosts(), func(other string) bool { return other != host && l.replicas.isReady(other) })
}
