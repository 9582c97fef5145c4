// Copyright The Tripod Authors.
// SPDX-License-Identifier: Apache-2.0

package upstream

import (
	"net/http"

	"github.com/tripod-k8s/tripod/base/hop/trust"
	"github.com/tripod-k8s/tripod/services/aggregator/routing"
)

// AsAggregator returns a transport for requests that the aggregator sends in its own name. Backend.RoundTrip expects headers that name the
// sender already.
func (b *Backend) AsAggregator() http.RoundTripper {
	return asAggregator{b}
}

type asAggregator struct{ next http.RoundTripper }

func (a asAggregator) RoundTrip(req *http.Request) (*http.Response, error) {
	signed, err := routing.Renew(req)
	if err != nil {
		return nil, err
	}
	signed.Header = req.Header.Clone()
	trust.SpeakAsAggregator(signed)
	return a.next.RoundTrip(signed)
}
