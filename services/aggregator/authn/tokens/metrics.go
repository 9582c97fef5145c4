// Copyright The Tripod Authors.
// SPDX-License-Identifier: Apache-2.0

package tokens

import (
	"time"

	"k8s.io/component-base/metrics"
)

const (
	namespace = "tripod"
	subsystem = "identity_client"
)

// outcome is how a question to core ended.
type outcome string

const (
	good     outcome = "good"
	bad      outcome = "bad"
	noAnswer outcome = "no_answer"
)

// clientMetrics count what a client does.
type clientMetrics struct {
	questions     *metrics.HistogramVec
	lookups       *metrics.CounterVec
	invalidations *metrics.Counter
	invalidated   *metrics.Counter
	follows       *metrics.Counter
	refused       *metrics.Counter
}

func newMetrics() *clientMetrics {
	counter := func(name, help string) *metrics.CounterOpts {
		return &metrics.CounterOpts{Namespace: namespace, Subsystem: subsystem, Name: name, Help: help, StabilityLevel: metrics.ALPHA}
	}
	return &clientMetrics{
		questions: metrics.NewHistogramVec(&metrics.HistogramOpts{
			Namespace: namespace, Subsystem: subsystem, Name: "question_duration_seconds",
			Help:           "Time until core answered a question about a token, by result: good or bad (the token), or no_answer.",
			Buckets:        metrics.ExponentialBuckets(0.0005, 2, 15), // to 8 s
			StabilityLevel: metrics.ALPHA,
		}, []string{"result"}),
		lookups: metrics.NewCounterVec(counter("cache_lookups_total",
			"Requests with a token, by how it was found in the cache: hit, grace (no replica of core is followed), or miss."), []string{"result"}),
		invalidations: metrics.NewCounter(counter("invalidations_total",
			"Changes that core reported because answers about tokens may depend on them.")),
		invalidated: metrics.NewCounter(counter("cache_invalidated_total",
			"Answers that were dropped because something that they depend on changed.")),
		follows: metrics.NewCounter(counter("follows_total",
			"How often a replica of core was begun to be followed. Each time the cache is empty.")),
		refused: metrics.NewCounter(counter("questions_refused_total",
			"Questions about tokens that were not asked, because too many others were being asked or waited to be.")),
	}
}

func (m *clientMetrics) found(how use) {
	m.lookups.WithLabelValues(string(how)).Inc()
}

func (m *clientMetrics) asked(ended outcome, at time.Time) {
	m.questions.WithLabelValues(string(ended)).Observe(time.Since(at).Seconds())
}

// RegisterMetrics registers the metrics of the client. It is called before Run.
func (c *Client) RegisterMetrics(register func(metrics.Registerable) error, registerCustom func(metrics.StableCollector) error) error {
	m := c.metrics
	for _, metric := range []metrics.Registerable{m.questions, m.lookups, m.invalidations, m.invalidated, m.follows, m.refused} {
		if err := register(metric); err != nil {
			return err
		}
	}
	return registerCustom(&stateCollector{cache: c.cache})
}

func newDesc(name, help string) *metrics.Desc {
	return metrics.NewDesc(metrics.BuildFQName(namespace, subsystem, name), help, nil, nil, metrics.ALPHA, "")
}

var (
	entriesDesc  = newDesc("cache_entries", "Tokens in the cache.")
	followedDesc = newDesc("followed", "1 while a replica of core is followed, else 0.")
	graceDesc    = newDesc("grace", "1 while no replica of core is followed and tokens in the cache are let in all the same, else 0.")
	lagDesc      = newDesc("lag_seconds", "Time since the last message of the replica of core that is followed, or was last. It sends one "+
		"every second.")
)

// stateCollector reports the state of the cache when it is scraped.
type stateCollector struct {
	metrics.BaseStableCollector

	cache *cache
}

// DescribeWithStability implements metrics.StableCollector.
func (*stateCollector) DescribeWithStability(descriptions chan<- *metrics.Desc) {
	for _, d := range []*metrics.Desc{entriesDesc, followedDesc, graceDesc, lagDesc} {
		descriptions <- d
	}
}

// CollectWithStability implements metrics.StableCollector.
func (s *stateCollector) CollectWithStability(collected chan<- metrics.Metric) {
	gauge := func(d *metrics.Desc, value float64) {
		collected <- metrics.NewLazyConstMetric(d, metrics.GaugeValue, value)
	}
	state := s.cache.state(time.Now())
	gauge(entriesDesc, float64(state.entries))
	gauge(followedDesc, asNumber(!state.lost))
	gauge(graceDesc, asNumber(state.grace))
	if !state.lastMessage.IsZero() {
		gauge(lagDesc, time.Since(state.lastMessage).Seconds())
	}
}

func asNumber(b bool) float64 {
	if b {
		return 1
	}
	return 0
}
