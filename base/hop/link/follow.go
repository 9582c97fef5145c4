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

	"github.com/tripod-k8s/tripod/base/hop/follow"
	"github.com/tripod-k8s/tripod/base/hop/replicas"
)

const (
	// probeInterval is the time between two probes of a replica, and probeTimeout how long one may take.
	probeInterval = time.Second
	probeTimeout  = 3 * time.Second
	// aloneInterval is the time between two probes of a replica that is ready and the only one. The link could not leave it.
	aloneInterval = 10 * time.Second
	// maxFailures is how many probes in a row must fail before a replica counts as unhealthy.
	maxFailures = 2
)

// readyz is the probe of a replica. A replica that answers neither ready nor unready counts as ready.
var readyz = replicas.Probe{Path: "/readyz", IsReady: func(status int) bool { return !fails(status) }}

// FollowReplicas looks up the names of replicas and probes each replica, until the context ends. The link leaves a replica that is
// unhealthy, or answers a read with 5xx, if another replica is ready. If none is ready, the link stays where it is. After 429, only
// requests go to another replica.
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

// probe probes one replica until the context ends.
func (l *Link) probe(ctx context.Context, host string) {
	ticker := time.NewTicker(probeInterval)
	defer ticker.Stop()
	var asked time.Time
	for failures := 0; ; {
		if l.mustProbe(host, asked) {
			asked = time.Now()
			asking, cancel := context.WithTimeout(ctx, probeTimeout)
			err := readyz.Ask(asking, l.replicas, host)
			cancel()
			if ctx.Err() != nil {
				return
			}
			if failures++; err == nil {
				failures = 0
			}
			if l.replicas.probed(host, err == nil, failures >= maxFailures) {
				klog.InfoS("Probed a replica", "service", l.service, "replica", host, "ready", err == nil, "reason", err)
			}
		}
		l.leaveIfUnhealthy(host)
		select {
		case <-ctx.Done():
			return
		case <-ticker.C:
		}
	}
}

// mustProbe reports whether a replica that was last probed at some time must be probed now. A probe costs the replica a read of etcd.
func (l *Link) mustProbe(host string, last time.Time) bool {
	return len(l.hosts()) > 1 || !l.replicas.isReady(host) || time.Since(last) >= aloneInterval
}

// fails reports whether a status means that a replica is unhealthy. 429 does not: a busy replica would have to serve the watches once more,
// or another one would, and be busy, too.
func fails(status int) bool { return status >= http.StatusInternalServerError }

// leaveIfUnhealthy leaves an unhealthy replica if another one is ready. Requests may have moved earlier and left watches behind.
func (l *Link) leaveIfUnhealthy(host string) {
	if !l.replicas.isUnhealthy(host) || !l.anotherIsReady(host) {
		return
	}
	l.current.CompareAndSwap(host, l.inOrder()[0])
	if l.replicas.watches(host) > 0 {
		l.replicas.leave(host, "it is not ready")
	}
}

// anotherIsReady reports whether any other replica passed its last probe.
func (l *Link) anotherIsReady(host string) bool {
	return slices.ContainsFunc(l.hosts(), func(other string) bool { return other != host && l.replicas.isReady(other) })
}
