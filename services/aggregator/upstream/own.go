// Copyright The Tripod Authors.
// SPDX-License-Identifier: Apache-2.0

package upstream

import (
	"net/http"

	"github.com/tripod-k8s/tripod/internal/hop/trust"
	"github.com/tripod-k8s/tripod/services/aggregator/routing"
)

// Own returns a transport for requests that the aggregator sends in its own name. RoundTrip of the Backend is for
// requests that say themselves who sent them.
func (b *Backend) Own() http.RoundTripper {
	return own{b}
}

type own struct{ next http.RoundTripper }

func (o own) RoundTrip(req *http.Request) (*http.Response, error) {
	// The context may be that of a client's request.
	class, err := routing.Classify(req, routing.Target{})
	if err != nil {
		return nil, err
	}
	signed := req.WithContext(class.In(req.Context()))
	signed.Header = req.Header.Clone()
	trust.SpeakAsAggregator(signed)
	return o.next.RoundTrip(signed)
}
