// Copyright The Tripod Authors.
// SPDX-License-Identifier: Apache-2.0

package upstream

import (
	"net/http"
	"time"

	"github.com/tripod-k8s/tripod/base/hop/replicas"
	"github.com/tripod-k8s/tripod/base/hop/trust"
	"github.com/tripod-k8s/tripod/services/aggregator/upstream/connections"
)

// checks say how to find out whether replicas are ready, and how often to ask.
type checks struct {
	replicas.Probe
	// timeout is how long a replica may take to answer a probe. After that it counts as silent.
	timeout time.Duration
	// pause is the shortest time between two probes, however many events ask for one. If these probes find nothing new, it grows up to
	// maxPause: a server may close every connection that a probe makes.
	pause, maxPause time.Duration
	// servingInterval is the time between probes of a serving replica. For other replicas it is interval, growing up to maxInterval while
	// nothing changes.
	interval, maxInterval, servingInterval time.Duration
	// feedInterval takes the place of servingInterval while the feed reports the replica as serving, and only watches are in flight.
	feedInterval time.Duration
	// byConnection makes the end of a connection, or an answer 503, cause a probe. Aggregated API servers need it: they have no feed, and
	// their probes are rare.
	byConnection bool
}

// ownChecks are the checks of all backends but aggregated API servers.
func ownChecks() checks {
	return checks{
		Probe: replicas.Probe{Path: "/readyz", Sign: trust.SpeakAsAggregator,
			IsReady: func(status int) bool { return status == http.StatusOK }},
		timeout:         2 * time.Second,
		pause:           20 * time.Millisecond,
		maxPause:        20 * time.Millisecond,
		interval:        500 * time.Millisecond,
		maxInterval:     500 * time.Millisecond,
		servingInterval: 500 * time.Millisecond,
		feedInterval:    5 * time.Second,
	}
}

// Aggregated describes an aggregated API server.
type Aggregated struct {
	// Name is the name of its APIService.
	Name  string
	Trust *connections.Trust
	// Dial makes connections. If it is nil, net.Dialer does.
	Dial connections.Dial
	// Path is the path of its discovery document, which every replica must serve. Sign adds the sender of a probe.
	Path string
	Sign func(*http.Request)
}

// NewAggregated returns the backend of an aggregated API server. It has no replicas until SetAddresses.
func NewAggregated(t Aggregated) *Backend {
	b := empty(t.Name, t.Trust)
	b.aggregated, b.dial = true, t.Dial
	// Any answer of unknown length may be a stream. So the backend does not hold them back.
	b.holds = false
	b.checks = checks{
		Probe: replicas.Probe{Path: t.Path, Sign: t.Sign, IsReady: func(status int) bool {
			return status >= http.StatusOK && status < http.StatusBadRequest // as in kube-aggregator: a redirect is fine
		}},
		timeout:         5 * time.Second,
		pause:           100 * time.Millisecond,
		maxPause:        time.Second,
		interval:        250 * time.Millisecond,
		maxInterval:     time.Second,
		servingInterval: 5 * time.Second,
		byConnection:    true,
	}
	return b
}

// Forget removes the metrics of a backend that is Finished and will not be used again.
func (b *Backend) Forget() {
	for i := range ranks {
		endpointsByState.DeleteLabelValues(b.name, i.String())
	}
	retriesTotal.DeletePartialMatch(map[string]string{"backend": b.name})
	retriesDeniedTotal.DeleteLabelValues(b.name)
}
