// Copyright The Tripod Authors.
// SPDX-License-Identifier: Apache-2.0

package feed

import (
	"context"
	"net/http"
	"net/url"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/apiserver/pkg/util/responsewriter"
	"k8s.io/component-base/metrics"
	"k8s.io/component-base/metrics/legacyregistry"

	"github.com/tripod-k8s/tripod/base/hop/replicas"
)

const (
	// readyInterval is the time between two checks of readiness. A check asks etcd.
	readyInterval = 500 * time.Millisecond
	// quietInterval is the time between two checks of a ready replica that gets no requests. The checks were a third of what an idle service
	// did. Identity of core allows for it.
	quietInterval = time.Second
)

// etcdCheck is the check of API servers that asks etcd.
const etcdCheck = "etcd"

var (
	failingGauge = metrics.NewGaugeVec(&metrics.GaugeOpts{
		Namespace: "tripod", Subsystem: "readiness", Name: "failing",
		Help:           "1 while this check of /readyz fails in the replica, 0 once it passes again. The check etcd has 0 before it fails, too.",
		StabilityLevel: metrics.ALPHA,
	}, []string{"check"})
	registerMetrics = sync.OnceFunc(func() {
		legacyregistry.MustRegister(failingGauge)
		failingGauge.WithLabelValues(etcdCheck).Set(0)
	})
)

// Readiness checks whether a replica is ready.
type Readiness struct {
	health http.Handler
	report func(failing []string)
	// arrived returns how many requests the replica has had.
	arrived func() uint64

	// checking is held until the result has been reported, so that an older result never follows a newer one.
	checking sync.Mutex
	failing  []string
	ready    atomic.Bool
}

// NewReadiness returns a Readiness. It reads /readyz of health, and calls report with the names of the failing checks. If none fails, the
// replica is ready. arrived returns how many requests the replica has had, without probes.
func NewReadiness(health http.Handler, report func(failing []string), arrived func() uint64) *Readiness {
	registerMetrics()
	return &Readiness{health: health, report: report, arrived: arrived}
}

// Follow repeats the check until the context ends.
func (r *Readiness) Follow(ctx context.Context) {
	var last time.Time
	var arrived uint64
	wait.UntilWithContext(ctx, func(ctx context.Context) {
		now := r.arrived()
		if now == arrived && r.ready.Load() && time.Since(last) < quietInterval-readyInterval/2 {
			return
		}
		last, arrived = time.Now(), now
		r.check(ctx)
	}, readyInterval)
}

func (r *Readiness) check(ctx context.Context) {
	r.checking.Lock()
	defer r.checking.Unlock()
	failing := failingChecks(ctx, r.health)
	r.ready.Store(len(failing) == 0)
	r.count(failing)
	r.report(failing)
}

// count sets the metrics of the checks that fail now, or did before.
func (r *Readiness) count(failing []string) {
	for _, check := range r.failing {
		if !slices.Contains(failing, check) {
			failingGauge.WithLabelValues(check).Set(0)
		}
	}
	for _, check := range failing {
		failingGauge.WithLabelValues(check).Set(1)
	}
	r.failing = failing
}

// ServeHTTP answers probes as health does. Before a probe learns that the replica is ready, watchers of the feed do. A prober may stop
// another replica at once.
func (r *Readiness) ServeHTTP(w http.ResponseWriter, req *http.Request) {
	if req.URL.Path == "/readyz" && !r.ready.Load() {
		r.check(req.Context())
	}
	r.health.ServeHTTP(w, req)
}

// failingChecks returns the names of the failing checks, or "readyz" if the answer names none.
func failingChecks(ctx context.Context, health http.Handler) []string {
	req := (&http.Request{Method: http.MethodGet, URL: &url.URL{Path: "/readyz"}, Header: http.Header{}}).WithContext(ctx)
	answer := responsewriter.NewInMemoryResponseWriter()
	health.ServeHTTP(answer, req)
	if answer.RespCode() == http.StatusOK {
		return nil
	}
	var failing []string
	for _, check := range replicas.ParseChecks(string(answer.Data())) {
		if !check.Passes {
			failing = append(failing, check.Name)
		}
	}
	if len(failing) == 0 {
		failing = []string{"readyz"}
	}
	return failing
}
