// Copyright The Tripod Authors.
// SPDX-License-Identifier: Apache-2.0

package upstream

import (
	"net/http"
	"time"

	"github.com/tripod-k8s/tripod/internal/hop/trust"
	"github.com/tripod-k8s/tripod/services/aggregator/upstream/connections"
)

// checks say how the replicas of a backend are found to be ready, and how often they are asked.
type checks struct {
	// path is what they are asked for, and sign says who asks.
	path string
	sign func(*http.Request)
	// isWell reports whether a status is that of a ready replica.
	isWell func(status int) bool
	// timeout is when a replica that does not answer is taken for silent.
	timeout time.Duration
	// pause is the least time between two probes, however often a replica is doubted. It grows up to maxPause while the doubts
	// have no reason: a server may end every connection that a probe makes.
	pause, maxPause time.Duration
	// interval is how often a replica is asked that is not serving, growing up to maxInterval while nothing changes, and
	// servingInterval one that is.
	interval, maxInterval, servingInterval time.Duration
	// byConnection is set when a replica is also asked when a connection to it ends, or it answers 503: there is no feed that
	// tells of it, and it is not asked often.
	byConnection bool
}

// ownChecks are those of core and extensions.
func ownChecks() checks {
	return checks{
		path:            "/readyz",
		sign:            trust.SpeakAsAggregator,
		isWell:          func(status int) bool { return status == http.StatusOK },
		timeout:         2 * time.Second,
		pause:           20 * time.Millisecond,
		maxPause:        20 * time.Millisecond,
		interval:        500 * time.Millisecond,
		maxInterval:     500 * time.Millisecond,
		servingInterval: 500 * time.Millisecond,
	}
}

// ThirdParty says how to reach an API server that is none of Tripod's services.
type ThirdParty struct {
	// Name is that of its APIService.
	Name  string
	Trust *connections.Trust
	// Dial makes connections, if not the network's own is to.
	Dial connections.Dial
	// Path is that of its discovery document, which every replica must have, and Sign says who asks for it.
	Path string
	Sign func(*http.Request)
}

// NewThirdParty returns the backend of a third party. It has no replicas before SetAddresses.
func NewThirdParty(t ThirdParty) *Backend {
	b := empty(t.Name, t.Trust)
	b.dial = t.Dial
	// What it streams is not known, so nothing is held back of it.
	b.holds = false
	b.checks = checks{
		path: t.Path,
		sign: t.Sign,
		// As kube-aggregator: it may redirect.
		isWell:          func(status int) bool { return status >= http.StatusOK && status < http.StatusBadRequest },
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

// SetAddresses says where the replicas are, host:port. A replica that is no longer among them finishes its requests.
func (b *Backend) SetAddresses(addresses []string) {
	b.setServers(servers{addresses: addresses})
}

// Forget ends the metrics of a backend that is Finished and will not be used again.
func (b *Backend) Forget() {
	for i := range ranks {
		endpointsByState.DeleteLabelValues(b.name, i.String())
	}
	retriesTotal.DeletePartialMatch(map[string]string{"backend": b.name})
	retriesDeniedTotal.DeleteLabelValues(b.name)
}
