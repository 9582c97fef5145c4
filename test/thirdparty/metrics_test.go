// Copyright The Tripod Authors.
// SPDX-License-Identifier: Apache-2.0

package thirdparty

import (
	"context"
	"net"
	"testing"

	"k8s.io/client-go/rest"

	"github.com/prometheus/common/expfmt"
	"github.com/prometheus/common/model"

	"github.com/tripod-k8s/tripod/test/framework"
)

// served returns how many requests the aggregators have sent to an endpoint and got an answer to.
func (s *server) served(t testing.TB, e *endpoint) float64 {
	t.Helper()
	sum := 0.0
	for _, name := range aggregators {
		config := fleet.Through(name).Admin()
		client, err := rest.HTTPClientFor(config)
		resp, err := must(t, client, err).Get(config.Host + "/metrics")
		must(t, resp, err)
		parser := expfmt.NewTextParser(model.UTF8Validation)
		families, err := parser.TextToMetricFamilies(resp.Body)
		must(t, families, err)
		if err := resp.Body.Close(); err != nil {
			t.Error(err)
		}
		for _, m := range families["tripod_backend_requests_total"].GetMetric() {
			labels := map[string]string{}
			for _, l := range m.GetLabel() {
				labels[l.GetName()] = l.GetValue()
			}
			if labels["backend"] == apiService && labels["endpoint"] == e.address && labels["code"] != "error" {
				sum += m.GetCounter().GetValue()
			}
		}
	}
	return sum
}

// awaitListening returns when somebody listens at the endpoint's address.
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
