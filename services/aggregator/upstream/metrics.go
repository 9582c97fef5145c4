// Copyright The Tripod Authors.
// SPDX-License-Identifier: Apache-2.0

package upstream

import (
	"strconv"
	"sync"
	"time"

	"k8s.io/component-base/metrics"
	"k8s.io/component-base/metrics/legacyregistry"

	"github.com/tripod-k8s/tripod/services/aggregator/quickmetrics"
	"github.com/tripod-k8s/tripod/services/aggregator/upstream/balance"
	"github.com/tripod-k8s/tripod/services/aggregator/upstream/connections"
)

const metricsPrefix = "tripod_backend_"

var (
	requestsTotal = metrics.NewCounterVec(&metrics.CounterOpts{
		Name: metricsPrefix + "requests_total",
		Help: "Requests sent to a replica, by the class of the answer's status (2xx, ...), or error where there was none. Retries " +
			"count again.",
		StabilityLevel: metrics.ALPHA,
	}, []string{"backend", "endpoint", "code"})
	inFlight = metrics.NewGaugeVec(&metrics.GaugeOpts{
		Name: metricsPrefix + "in_flight",
		Help: "Requests of which a replica has not finished the answer. Kind watch are those that go on until one end ends them: " +
			"also logs and tunnels.",
		StabilityLevel: metrics.ALPHA,
	}, []string{"backend", "endpoint", "kind"})
	requestDuration = metrics.NewHistogramVec(&metrics.HistogramOpts{
		Name:           metricsPrefix + "request_duration_seconds",
		Help:           "Time from sending a request to a replica to the end of the answer, without watches.",
		Buckets:        []float64{0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 5, 30},
		StabilityLevel: metrics.ALPHA,
	}, []string{"backend", "endpoint"})
	retriesTotal = metrics.NewCounterVec(&metrics.CounterOpts{
		Name: metricsPrefix + "retries_total",
		Help: "Requests sent again, by why: unreachable (no connection), unsent (connection closed before), refused (not processed, says the " +
			"replica), unsupported (the replica speaks only HTTP/2), broken (connection lost), reset (request broken off), throttled (429), " +
			"fresh (404 for what was just defined).",
		StabilityLevel: metrics.ALPHA,
	}, []string{"backend", "reason"})
	retriesDeniedTotal = metrics.NewCounterVec(&metrics.CounterOpts{
		Name:           metricsPrefix + "retries_denied_total",
		Help:           "Requests that could have been sent again but for the retry budget.",
		StabilityLevel: metrics.ALPHA,
	}, []string{"backend"})
	ejectionsTotal = metrics.NewCounterVec(&metrics.CounterOpts{
		Name: metricsPrefix + "ejections_total",
		Help: "How often a replica stopped getting requests because it was lost, by what was noticed: unreachable or broken (by a request), " +
			"refusing or silent (by a probe).",
		StabilityLevel: metrics.ALPHA,
	}, []string{"backend", "endpoint", "reason"})
	endpointsByState = metrics.NewGaugeVec(&metrics.GaugeOpts{
		Name:           metricsPrefix + "endpoints",
		Help:           "Replicas by state: serving, draining, busy, held-back, ejected, unprobed, unready, refusing, silent, frozen.",
		StabilityLevel: metrics.ALPHA,
	}, []string{"backend", "state"})
	endpointState = metrics.NewGaugeVec(&metrics.GaugeOpts{
		Name:           metricsPrefix + "endpoint_state",
		Help:           "The state of a replica, by the names of endpoints: its series is 1, and ends when the state does.",
		StabilityLevel: metrics.ALPHA,
	}, []string{"backend", "endpoint", "state"})
	lateTotal = metrics.NewCounterVec(&metrics.CounterOpts{
		Name: metricsPrefix + "late_probes_total",
		Help: "Probes that a replica did not answer in time although it showed signs of life: it, or this aggregator, has more to do than it " +
			"can. Beside ejections_total, it distinguishes overload from death.",
		StabilityLevel: metrics.ALPHA,
	}, []string{"backend", "endpoint"})
	connectionsOpen = metrics.NewGaugeVec(&metrics.GaugeOpts{
		Name:           metricsPrefix + "connections",
		Help:           "Open connections to a replica, by protocol: h2, http/1.1.",
		StabilityLevel: metrics.ALPHA,
	}, []string{"backend", "endpoint", "protocol"})
	watchSessions = metrics.NewGaugeVec(&metrics.GaugeOpts{
		Name:           metricsPrefix + "watch_sessions",
		Help:           "Open sessions in which watches at a replica share events.",
		StabilityLevel: metrics.ALPHA,
	}, []string{"backend", "endpoint"})
	watchBytesTotal = metrics.NewCounterVec(&metrics.CounterOpts{
		Name:           metricsPrefix + "watch_session_bytes_total",
		Help:           "Bytes of events that a replica sent in sessions (carried), and that watches received of them (delivered).",
		StabilityLevel: metrics.ALPHA,
	}, []string{"backend", "endpoint", "what"})
)

// registerMetrics adds the metrics to /metrics. Label values set before that are lost.
var registerMetrics = sync.OnceFunc(func() {
	quickmetrics.MustRegister(requestsTotal, inFlight, requestDuration, endpointsByState, endpointState)
	legacyregistry.MustRegister(retriesTotal, retriesDeniedTotal, ejectionsTotal, lateTotal, connectionsOpen, watchSessions,
		watchBytesTotal)
})

// Values of the label what in watch_session_bytes_total.
const carriedBytes, deliveredBytes = "carried", "delivered"

// codes is the number of values of the label code: the classes of status codes, and 0 if no answer came.
const codes = 6

func codeName(class int) string {
	if class == 0 {
		return "error"
	}
	return strconv.Itoa(class) + "xx"
}

// ejectionReasons are the values of the label reason in ejections_total.
var ejectionReasons = []string{connections.Unreachable.String(), connections.Broken.String(), refusing.String(), silent.String()}

// endpointMetrics has the time series of one endpoint, looked up once. Connections of a removed endpoint may close after delete. A series
// that is looked up then is a new one, which counts from 0 and stays.
type endpointMetrics struct {
	backend, endpoint string
	requests          [codes]metrics.CounterMetric
	inFlight          [2]metrics.GaugeMetric
	duration          metrics.ObserverMetric
	// lateProbes counts probes without an answer in time, but with signs of life.
	lateProbes metrics.CounterMetric
	// carried and delivered count bytes of events in sessions.
	carried, delivered metrics.CounterMetric
	sessions           metrics.GaugeMetric
	// connections are by protocol, and ejections by reason.
	connections map[string]metrics.GaugeMetric
	ejections   map[string]metrics.CounterMetric
	// state is that of the series in endpoint_state, or empty without one. The lock of the backend guards it.
	state string
}

func newEndpointMetrics(backend, endpoint string) *endpointMetrics {
	m := &endpointMetrics{
		backend: backend, endpoint: endpoint, duration: requestDuration.WithLabelValues(backend, endpoint),
		sessions:    watchSessions.WithLabelValues(backend, endpoint),
		connections: map[string]metrics.GaugeMetric{}, ejections: map[string]metrics.CounterMetric{},
	}
	for _, protocol := range connections.Protocols {
		m.connections[protocol] = connectionsOpen.WithLabelValues(backend, endpoint, protocol)
	}
	for _, reason := range ejectionReasons {
		m.ejections[reason] = ejectionsTotal.WithLabelValues(backend, endpoint, reason)
	}
	m.lateProbes = lateTotal.WithLabelValues(backend, endpoint)
	m.carried = watchBytesTotal.WithLabelValues(backend, endpoint, carriedBytes)
	m.delivered = watchBytesTotal.WithLabelValues(backend, endpoint, deliveredBytes)
	for class := range m.requests {
		m.requests[class] = requestsTotal.WithLabelValues(backend, endpoint, codeName(class))
	}
	for kind := range m.inFlight {
		m.inFlight[kind] = inFlight.WithLabelValues(backend, endpoint, balance.Kind(kind).String())
	}
	return m
}

func (m *endpointMetrics) begin(kind balance.Kind) { m.inFlight[kind].Inc() }

// end counts a finished request. status is 0 if no answer came.
func (m *endpointMetrics) end(kind balance.Kind, status int, took time.Duration) {
	m.inFlight[kind].Dec()
	if class := status / 100; class < codes {
		m.requests[class].Inc()
	}
	if kind == balance.Short {
		m.duration.Observe(took.Seconds())
	}
}

func (m *endpointMetrics) connection(protocol string, change int) {
	m.connections[protocol].Add(float64(change))
}

func (m *endpointMetrics) session(change int) { m.sessions.Add(float64(change)) }

func (m *endpointMetrics) ejected(reason string) { m.ejections[reason].Inc() }

// setState replaces the series of the state. An empty state removes it. A scrape in between has both.
func (m *endpointMetrics) setState(state string) {
	before := m.state
	if state == before {
		return
	}
	if m.state = state; state != "" {
		endpointState.WithLabelValues(m.backend, m.endpoint, state).Set(1)
	}
	if before != "" {
		endpointState.DeleteLabelValues(m.backend, m.endpoint, before)
	}
}

// delete removes the series of a removed endpoint. In a cluster, new addresses keep appearing.
func (m *endpointMetrics) delete() {
	labels := func(name, value string) map[string]string {
		return map[string]string{"backend": m.backend, "endpoint": m.endpoint, name: value}
	}
	for class := range m.requests {
		requestsTotal.Delete(labels("code", codeName(class)))
	}
	for kind := range m.inFlight {
		inFlight.Delete(labels("kind", balance.Kind(kind).String()))
	}
	for _, reason := range ejectionReasons {
		ejectionsTotal.Delete(labels("reason", reason))
	}
	for _, protocol := range connections.Protocols {
		connectionsOpen.Delete(labels("protocol", protocol))
	}
	for _, what := range []string{carriedBytes, deliveredBytes} {
		watchBytesTotal.Delete(labels("what", what))
	}
	lateTotal.Delete(map[string]string{"backend": m.backend, "endpoint": m.endpoint})
	watchSessions.Delete(map[string]string{"backend": m.backend, "endpoint": m.endpoint})
	requestDuration.Delete(map[string]string{"backend": m.backend, "endpoint": m.endpoint})
}
