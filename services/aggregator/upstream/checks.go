// Copyright The Tripod Authors.
// SPDX-License-Identifier: Apache-2.0

package upstream

import (
	"net/http"
	"time"

	"github.com/tripod-k8s/tripod/internal/hop/replicas"
	"github.com/tripod-k8s/tripod/internal/hop/trust"
	"github.com/tripod-k8s/tripod/services/aggregator/upstream/connections"
)

// checks say how the replicas of a backend are found to be ready, and how often they are asked.
type checks struct {
	replicas.Probe
	// timeout is when a replica that does not answer is taken for silent.
	timeout time.Duration
	// pause is the least time between two probes, however often a replica is doubted. It grows up to maxPause while the doubts
	// have no reason: a server may end every connection that a probe makes.
	pause, maxPause time.Duration
	// interval is how often a replica is asked that is not serving, growing up to maxInterval while nothing changes, and
	// servingInterval one that is.
	interval, maxInterval, servingInterval time.Duration
	// byConnection is set if the end of a connection or an answer 503 also causes a probe. Aggregated API servers need it: they have no
	// feed, and probes of them are rare.
	byConnection bool
}

// ownChecks are those of core and extensions.
func ownChecks() checks {
	return checks{
		Probe:           replicas.Probe{Path: "/readyz", Sign: trust.SpeakAsAggregator, IsReady: func(status int) bool { return status == http.StatusOK }},
		timeout:         2 * time.Second,
		pause:           20 * time.Millisecond,
		maxPause:        20 * time.Millisecond,
		interval:        500 * time.Millisecond,
		maxInterval:     500 * time.Millisecond,
		servingInterval: 500 * time.Millisecond,
	}
}

// Aggregated says how to reach an aggregated API server.
type Aggregated struct {
	// Name is that of its APIService.
	Name  string
	Trust *connections.Trust
	// Dial makes connections, if not the network's own is to.
	Dial connections.Dial
	// Path is that of its discovery document, which every replica must have, and Sign says who asks for it.
	Path string
	Sign func(*http.Request)
}

// NewAggregated returns the backend of an aggregated API server. It has no replicas before SetAddresses.
func NewAggregated(t Aggregated) *Backend {
	b := empty(t.Name, t.Trust)
	b.dial = t.Dial
	// Any of its answers may be a stream, so none of unknown length is held.
	b.holds = false
	b.checks = checks{
		Probe: replicas.Probe{Path: t.Path, Sign: t.Sign, IsReady: func(status int) bool {
			return status >= http.StatusOK && status < http.StatusBadRequest // as kube-aggregator: it may redirect
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

// Forget removes the metrics of a backend that is Finished and that nobody will use again.
func (b *Backend) Forget() {
	for i := range ranks {
		endpointsByState.DeleteLabelValues(b.name, i.String())
	}
	retriesTotal.DeletePartialMatch(map[string]string{"backend": b.name})
	retriesDeniedTotal.DeleteLabelValues(b.name)
}
