// Copyright The Tripod Authors.
// SPDX-License-Identifier: Apache-2.0

package aggregated

import (
	"context"
	"net"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/tripod-k8s/tripod/test/framework"
)

// served returns how many requests the aggregators have sent to an endpoint and got an answer to.
func (s *server) served(t testing.TB, e *endpoint) float64 {
	t.Helper()
	answered := 0.0
	for _, name := range aggregators {
		labels := []string{"backend=" + apiService, "endpoint=" + e.address}
		sent, err := fleet.Metric(t.Context(), name, "tripod_backend_requests_total", labels...)
		require.NoError(t, err)
		failed, err := fleet.Metric(t.Context(), name, "tripod_backend_requests_total", append(labels, "code=error")...)
		require.NoError(t, err)
		answered += sent - failed
	}
	return answered
}

// awaitListening returns when a process listens at the endpoint's address.
func awaitListening(t testing.TB, e *endpoint) {
	t.Helper()
	framework.Eventually(t, "the endpoint listens", func(ctx context.Context) error {
		conn, err := (&net.Dialer{}).DialContext(ctx, "tcp", e.address)
		if err != nil {
			return err
		}
		return conn.Close()
	})
}
