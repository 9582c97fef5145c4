// Copyright The Tripod Authors.
// SPDX-License-Identifier: Apache-2.0

package policy

import (
	"net/http"
	"sync/atomic"
	"time"

	"k8s.io/klog/v2"
)

// patience is the time between attempts while core cannot be reached.
const patience = 250 * time.Millisecond

// patient sends requests, which only read, again and again until core answers, so that who follows core does so as soon as
// it is back, and the log says once that it is away.
type patient struct {
	next http.RoundTripper
	// away is true while core cannot be reached.
	away atomic.Bool
}

// RoundTrip implements http.RoundTripper.
func (p *patient) RoundTrip(req *http.Request) (*http.Response, error) {
	for {
		resp, err := p.next.RoundTrip(req)
		if err == nil {
			if p.away.Swap(false) {
				klog.InfoS("Following the policy of core again")
			}
			return resp, nil
		}
		if req.Context().Err() != nil || (req.Body != nil && req.Body != http.NoBody) {
			return nil, err
		}
		if !p.away.Swap(true) {
			klog.InfoS("Cannot follow the policy of core; what is known of it stays in force", "reason", err.Error())
		}
		select {
		case <-req.Context().Done():
			return nil, err
		case <-time.After(patience):
		}
	}
}

// WrappedRoundTripper implements utilnet.RoundTripperWrapper, for those who look for what is below.
func (p *patient) WrappedRoundTripper() http.RoundTripper {
	return p.next
}
