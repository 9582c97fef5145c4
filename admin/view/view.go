// Copyright The Tripod Authors.
// SPDX-License-Identifier: Apache-2.0

package view

import (
	"errors"
	"fmt"
	"io"
	"math"
	"slices"
	"strings"
	"time"

	dto "github.com/prometheus/client_model/go"
)

// Metrics about replicas, and their labels.
const (
	Requests  = "tripod_backend_requests_total"
	Endpoints = "tripod_backend_endpoints"
	Backend   = "backend"
	Endpoint  = "endpoint"
	State     = "state"

	inFlight    = "tripod_backend_in_flight"
	states      = "tripod_backend_endpoint_state"
	durations   = "tripod_backend_request_duration_seconds"
	connections = "tripod_client_connections"

	started    = "process_start_time_seconds"
	cpu        = "process_cpu_seconds_total"
	memory     = "process_resident_memory_bytes"
	build      = "kubernetes_build_info"
	difference = "tripod_configuration_differences"
)

// OfReplicas are the metrics about replicas and clients, and OfProcess those about the aggregator itself.
var (
	OfReplicas = []string{Requests, inFlight, states, durations, connections}
	OfProcess  = []string{started, cpu, memory, build, difference}
)

const (
	// maxLabel bounds the name, the address and the state of a replica. API services choose their own names and addresses.
	maxLabel = 300
	// maxBounds bounds the histogram of a replica. Aggregators have 12 bounds.
	maxBounds = 16
)

// ErrNoStates is returned for the metrics of a server that is no aggregator of Tripod, or of a version without states.
var ErrNoStates = errors.New("the API server has no metric " + states + ", as aggregators of Tripod do")

// Aggregator is what an aggregator publishes in its metrics.
type Aggregator struct {
	// Address is that of the process, and Time when it has answered.
	Address string    `json:"address"`
	Time    time.Time `json:"time"`
	// Connections are those of clients.
	Connections int64 `json:"connections"`
	// Replicas are those of backends, sorted by backend and endpoint.
	Replicas []Replica `json:"replicas"`
	// LeftOff is how many replicas are not among them, because their names are too long, or because they are too many.
	LeftOff int `json:"leftOff,omitempty"`
	// Process is nil if these metrics were not read.
	Process *Process `json:"process,omitempty"`
}

// Replica is what an aggregator publishes about a replica of a backend.
type Replica struct {
	Backend  string `json:"backend"`
	Endpoint string `json:"endpoint"`
	// State is one of those in docs/operate.md, or empty if the aggregator is of a version without it.
	State    string `json:"state,omitempty"`
	Requests int64  `json:"requests"`
	InFlight int64  `json:"inFlight"`
	Watches  int64  `json:"watches"`
	// Timed is the number of requests whose time is known, without watches. Durations are those of them that took no longer than a bound,
	// sorted by bound.
	Timed     uint64     `json:"timed"`
	Durations []Duration `json:"durations,omitempty"`
}

// Duration is the number of requests that took at most Bound seconds.
type Duration struct {
	Bound float64 `json:"bound"`
	Count uint64  `json:"count"`
}

// Process is what an aggregator publishes about its own process. Numbers are 0 if unknown.
type Process struct {
	// Started distinguishes aggregators, to a hundredth of a second.
	Started             time.Time `json:"started"`
	Version             string    `json:"version"`
	CPUSeconds          float64   `json:"cpuSeconds"`
	ResidentMemoryBytes int64     `json:"residentMemoryBytes"`
	// Differences are those between the settings of replicas, a line each.
	Differences []string `json:"differences,omitempty"`
}

// Of returns the view that metrics have, without the process.
func Of(families map[string]*dto.MetricFamily) *Aggregator {
	view := &Aggregator{Time: time.Now(), Replicas: []Replica{}}
	for _, metric := range families[connections].GetMetric() {
		view.Connections += whole(metric.GetGauge().GetValue())
	}
	of := map[[2]string]*Replica{}
	each := func(name string, use func(*Replica, *dto.Metric)) {
		for _, metric := range families[name].GetMetric() {
			at := [2]string{Label(metric, Backend), Label(metric, Endpoint)}
			if of[at] == nil {
				of[at] = &Replica{Backend: at[0], Endpoint: at[1]}
			}
			use(of[at], metric)
		}
	}
	each(Requests, func(r *Replica, m *dto.Metric) { r.Requests += whole(m.GetCounter().GetValue()) })
	each(inFlight, func(r *Replica, m *dto.Metric) {
		if Label(m, "kind") == "watch" {
			r.Watches += whole(m.GetGauge().GetValue())
			return
		}
		r.InFlight += whole(m.GetGauge().GetValue())
	})
	each(states, func(r *Replica, m *dto.Metric) { r.State = Label(m, State) })
	each(durations, func(r *Replica, m *dto.Metric) {
		r.Timed, r.Durations = m.GetHistogram().GetSampleCount(), nil
		for _, bucket := range m.GetHistogram().GetBucket() {
			bound := bucket.GetUpperBound()
			if !math.IsInf(bound, 0) && !math.IsNaN(bound) && len(r.Durations) < maxBounds { // JSON has no other numbers
				r.Durations = append(r.Durations, Duration{Bound: bound, Count: bucket.GetCumulativeCount()})
			}
		}
	})
	for at, r := range of {
		if len(at[0]) > maxLabel || len(at[1]) > maxLabel || len(r.State) > maxLabel {
			view.LeftOff++
			continue
		}
		view.Replicas = append(view.Replicas, *r)
	}
	slices.SortFunc(view.Replicas, func(a, b Replica) int {
		return strings.Compare(a.Backend+" "+a.Endpoint, b.Backend+" "+b.Endpoint)
	})
	return view
}

// Read returns the view of an aggregator with its process. The text has its metrics, all or those of OfReplicas and OfProcess.
func Read(text io.Reader) (*Aggregator, error) {
	families, err := Families(text, slices.Concat(OfReplicas, OfProcess)...)
	if err != nil {
		return nil, err
	}
	if len(families[states].GetMetric()) == 0 {
		return nil, ErrNoStates
	}
	view := Of(families)
	view.Process = processOf(families)
	return view, nil
}

func processOf(families map[string]*dto.MetricFamily) *Process {
	value := func(name string) float64 {
		for _, m := range families[name].GetMetric() {
			if v := m.GetGauge().GetValue() + m.GetCounter().GetValue() + m.GetUntyped().GetValue(); v > 0 && v < math.MaxInt64/1e6 {
				return v
			}
		}
		return 0
	}
	p := &Process{CPUSeconds: value(cpu), ResidentMemoryBytes: int64(value(memory))}
	if s := value(started); s > 0 {
		p.Started = time.UnixMilli(int64(math.Round(1000 * s))).UTC()
	}
	for _, m := range families[build].GetMetric() {
		if version := Label(m, "git_version"); len(version) <= maxLabel {
			p.Version = version
		}
	}
	for _, m := range families[difference].GetMetric() {
		kind, between := Label(m, "kind"), Label(m, "between")
		if n := whole(m.GetGauge().GetValue()); n > 0 && len(kind)+len(between) <= maxLabel {
			p.Differences = append(p.Differences, fmt.Sprintf("%d in %s between %s", n, kind, between))
		}
	}
	const maxDifferences = 20 // aggregators have 8
	slices.Sort(p.Differences)
	p.Differences = p.Differences[:min(len(p.Differences), maxDifferences)]
	return p
}

// whole returns a count, and 0 for what is none.
func whole(value float64) int64 {
	if !(value > 0 && value < 1<<53) {
		return 0
	}
	return int64(value)
}
