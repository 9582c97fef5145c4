// Copyright The Tripod Authors.
// SPDX-License-Identifier: Apache-2.0

// Package quickmetrics answers GET /metrics?name[]=NAME for the metrics that show the state of an aggregator, without collecting all
// others.
//
// Prometheus' handler collects every metric of a process, among them hundreds of histograms and the Go runtime's, before it selects those
// that a client wants. The console asks every second for ten of them. An answer takes an aggregator that has just started 1.1 ms of
// processor time, and 5.5 ms if one more metric is wanted that is not among these. Most of what is left is what a request takes.
package quickmetrics

import (
	"net/http"
	"slices"
	"sync"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/collectors"
	"github.com/prometheus/client_golang/prometheus/promhttp"
	dto "github.com/prometheus/client_model/go"
	"k8s.io/component-base/metrics"
	"k8s.io/component-base/metrics/legacyregistry"
)

// build is a metric that never changes.
const build = "kubernetes_build_info"

var (
	mu       sync.RWMutex
	registry = newRegistry()
	names    = map[string]bool{
		"process_start_time_seconds": true, "process_cpu_seconds_total": true, "process_resident_memory_bytes": true, build: true,
	}
)

func newRegistry() *prometheus.Registry {
	r := prometheus.NewRegistry()
	r.MustRegister(collectors.NewProcessCollector(collectors.ProcessCollectorOpts{}))
	return r
}

// MustRegister adds metrics to /metrics, and to those that Wrap answers.
func MustRegister(added ...metrics.Registerable) {
	legacyregistry.MustRegister(added...)
	mu.Lock()
	defer mu.Unlock()
	for _, metric := range added {
		registry.MustRegister(metric)
		names[metric.FQName()] = true
	}
}

// Wrap answers requests for metrics by their names, if it knows all of these. All other requests are for next.
func Wrap(next http.Handler) http.Handler {
	all := prometheus.Gatherers{registry, buildInfo()}
	quick := promhttp.InstrumentMetricHandler(prometheus.DefaultRegisterer, http.HandlerFunc(func(w http.ResponseWriter, req *http.Request) {
		promhttp.HandlerFor(some(all, namesOf(req)), promhttp.HandlerOpts{}).ServeHTTP(w, req)
	}))
	return http.HandlerFunc(func(w http.ResponseWriter, req *http.Request) {
		if req.Method == http.MethodGet && req.URL.Path == "/metrics" && knowsAll(namesOf(req)) {
			quick.ServeHTTP(w, req)
			return
		}
		next.ServeHTTP(w, req)
	})
}

func namesOf(req *http.Request) []string { return req.URL.Query()["name[]"] }

// some gathers metrics by their names. The handler of older versions of client_golang, which Kubernetes 1.36 has, does not select.
func some(all prometheus.Gatherer, wanted []string) prometheus.GathererFunc {
	return func() ([]*dto.MetricFamily, error) {
		families, err := all.Gather()
		return slices.DeleteFunc(families, func(f *dto.MetricFamily) bool { return !slices.Contains(wanted, f.GetName()) }), err
	}
}

func knowsAll(wanted []string) bool {
	mu.RLock()
	defer mu.RUnlock()
	for _, name := range wanted {
		if !names[name] {
			return false
		}
	}
	return len(wanted) > 0
}

// buildInfo gathers the version once.
func buildInfo() prometheus.GathererFunc {
	return sync.OnceValues(func() ([]*dto.MetricFamily, error) {
		all, err := legacyregistry.DefaultGatherer.Gather()
		for _, family := range all {
			if family.GetName() == build {
				return []*dto.MetricFamily{family}, nil
			}
		}
		return nil, err
	})
}
