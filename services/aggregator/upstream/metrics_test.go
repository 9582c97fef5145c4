// Copyright The Tripod Authors.
// SPDX-License-Identifier: Apache-2.0

package upstream

import (
	"context"
	"io"
	"net/http"
	"slices"
	"testing"

	"github.com/stretchr/testify/require"

	"k8s.io/component-base/metrics/legacyregistry"

	"github.com/tripod-k8s/tripod/base/hop/connectionstest"
)

// series returns the value of the time series with these labels (name, value, ...), and whether it exists.
func series(t *testing.T, name string, labels ...string) (float64, bool) {
	t.Helper()
	families, err := legacyregistry.DefaultGatherer.Gather()
	require.NoError(t, err)
	for _, family := range families {
		if family.GetName() != metricsPrefix+name {
			continue
		}
		for _, m := range family.GetMetric() {
			found := 0
			for _, l := range m.GetLabel() {
				if i := slices.Index(labels, l.GetName()); i >= 0 && labels[i+1] == l.GetValue() {
					found++
				}
			}
			if 2*found == len(labels) {
				return m.GetCounter().GetValue() + m.GetGauge().GetValue() + float64(m.GetHistogram().GetSampleCount()), true
			}
		}
	}
	return 0, false
}

func TestMetrics(t *testing.T) {
	pki := connectionstest.NewPKI(t)
	broken := connectionstest.Serve(t, pki.ServerConfig(t, coreServerName), connectionstest.AfterBody)
	release := make(chan struct{})
	address := serve(t, pki, func(w http.ResponseWriter, req *http.Request) {
		if req.Method == http.MethodPost {
			w.WriteHeader(http.StatusConflict)
			return
		}
		_, _ = w.Write(make([]byte, maxHeld)) // the aggregator does not hold back more
		w.(http.Flusher).Flush()
		<-release
		_, _ = io.WriteString(w, "answer")
	})
	// Other tests may have used the same ports.
	requestsTotal.Reset()
	inFlight.Reset()
	requestDuration.Reset()
	ejectionsTotal.Reset()
	connectionsOpen.Reset()
	b := newBackend(t, pki, broken.Address, address)
	b.find(broken.Address, ready)
	expect := func(want float64, name string, labels ...string) {
		t.Helper()
		if got, ok := series(t, name, labels...); !ok || got != want {
			t.Errorf("%s%v is %v (%v), want %v", name, labels, got, ok, want)
		}
	}
	retries, _ := series(t, "retries_total", "backend", Core, "reason", "broken")

	resp, err := b.RoundTrip(newRequest(t, http.MethodGet, ""))
	require.NoError(t, err)
	expect(1, "requests_total", "endpoint", broken.Address, "code", "error")
	expect(retries+1, "retries_total", "backend", Core, "reason", "broken")
	expect(1, "ejections_total", "endpoint", broken.Address, "reason", "broken")
	expect(1, "in_flight", "endpoint", address, "kind", "short")
	expect(0, "requests_total", "endpoint", address, "code", "2xx")
	expect(1, "connections", "endpoint", address, "protocol", "h2")
	expect(1, "endpoints", "backend", Core, "state", "ejected")
	expect(1, "endpoints", "backend", Core, "state", "unprobed")
	expect(1, "endpoint_state", "endpoint", broken.Address, "state", "ejected")
	expect(1, "endpoint_state", "endpoint", address, "state", "unprobed")
	b.find(address, ready)
	expect(1, "endpoints", "backend", Core, "state", "serving")
	expect(1, "endpoint_state", "endpoint", address, "state", "serving")
	if _, ok := series(t, "endpoint_state", "endpoint", address, "state", "unprobed"); ok {
		t.Error("a replica has the state before, too")
	}
	close(release)
	if _, err := io.ReadAll(resp.Body); err != nil {
		t.Fatal(err)
	}
	if _, err := do(t, b, newRequest(t, http.MethodPost, "")); err != nil {
		t.Fatal(err)
	}
	expect(0, "in_flight", "endpoint", address, "kind", "short")
	expect(1, "requests_total", "endpoint", address, "code", "2xx")
	expect(1, "requests_total", "endpoint", address, "code", "4xx")
	expect(2, "request_duration_seconds", "endpoint", address)

	// A removed replica has no series.
	e := b.endpoints[address]
	require.NoError(t, b.SetServers(nil))
	if _, ok := series(t, "endpoint_state", "endpoint", address); ok {
		t.Error("a replica that is removed has a state while it finishes its requests")
	}
	b.keepProbing(context.Background(), e)
	// Its connections may close later.
	e.metrics.connection("h2", -1)
	e.metrics.session(-1)
	e.metrics.ejected(silent.String())
	for _, name := range []string{"requests_total", "in_flight", "connections", "request_duration_seconds", "ejections_total", "watch_sessions"} {
		if _, ok := series(t, name, "endpoint", address); ok {
			t.Errorf("%s of a replica that is gone is left", name)
		}
	}
}
