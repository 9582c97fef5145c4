// Copyright The Tripod Authors.
// SPDX-License-Identifier: Apache-2.0

package up

import (
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/tripod-k8s/tripod/admin/view"
	"github.com/tripod-k8s/tripod/local/process"
)

const viewOfAnAggregator = `# TYPE tripod_backend_requests_total counter
tripod_backend_requests_total{backend="core",code="2xx",endpoint="127.0.0.1:20001"} 70
tripod_backend_requests_total{backend="core",code="5xx",endpoint="127.0.0.1:20001"} 5
tripod_backend_requests_total{backend="core",code="2xx",endpoint="127.0.0.1:20002"} 1
# TYPE tripod_backend_in_flight gauge
tripod_backend_in_flight{backend="core",endpoint="127.0.0.1:20001",kind="short"} 3
tripod_backend_in_flight{backend="core",endpoint="127.0.0.1:20001",kind="watch"} 40
# TYPE tripod_backend_endpoint_state gauge
tripod_backend_endpoint_state{backend="core",endpoint="127.0.0.1:20001",state="serving"} 1
tripod_backend_endpoint_state{backend="core",endpoint="127.0.0.1:20002",state="ejected"} 1
# TYPE tripod_backend_request_duration_seconds histogram
tripod_backend_request_duration_seconds_bucket{backend="core",endpoint="127.0.0.1:20001",le="0.001"} 60
tripod_backend_request_duration_seconds_bucket{backend="core",endpoint="127.0.0.1:20001",le="30"} 75
tripod_backend_request_duration_seconds_bucket{backend="core",endpoint="127.0.0.1:20001",le="+Inf"} 75
tripod_backend_request_duration_seconds_sum{backend="core",endpoint="127.0.0.1:20001"} 1
tripod_backend_request_duration_seconds_count{backend="core",endpoint="127.0.0.1:20001"} 75
# TYPE tripod_client_connections gauge
tripod_client_connections 12
`

// publishing is an aggregator and an etcd at one address.
type publishing struct {
	*httptest.Server
	asked atomic.Int32
	body  atomic.Value
}

func publish(t *testing.T, body string) *publishing {
	p := &publishing{}
	p.body.Store(body)
	p.Server = httptest.NewTLSServer(http.HandlerFunc(func(w http.ResponseWriter, req *http.Request) {
		switch req.URL.Path {
		case "/metrics":
			p.asked.Add(1)
			assert.NotEmpty(t, req.URL.Query()["name[]"], "only what is needed")
			io.WriteString(w, p.body.Load().(string)) //nolint:errcheck // the test ends
		case "/readyz/same-settings":
			http.Error(w, "internal server error: core at 127.0.0.1:20002: a gate differs", http.StatusInternalServerError)
		case "/readyz/same-configuration":
			fmt.Fprint(w, "ok")
		}
	}))
	t.Cleanup(p.Close)
	return p
}

// trusts is the trust in a server, whichever its authority is.
func (p *publishing) trusts(string, string) (*tls.Config, error) {
	roots := x509.NewCertPool()
	roots.AddCert(p.Certificate())
	return &tls.Config{RootCAs: roots, MinVersion: tls.VersionTLS12}, nil
}

func running(component, address string) process.Status {
	return process.Status{Component: component, Replica: component + "-0", Address: address, Ready: true}
}

func TestAnObservationHasTheViewsOfAggregators(t *testing.T) {
	aggregator := publish(t, viewOfAnAggregator)
	database := publish(t, "# TYPE grpc_server_handled_total counter\ngrpc_server_handled_total{grpc_code=\"OK\"} 7\ngrpc_server_handled_total{grpc_code=\"X\"} 2\n")
	statuses := []process.Status{running(etcd, database.URL), running("aggregator", aggregator.URL), running("core", "https://127.0.0.1:20001")}
	o := &observer{}
	o.ask(t.Context(), statuses, aggregator.trusts)
	seen := o.views[aggregator.URL]
	assert.WithinDuration(t, time.Now(), seen.Time, time.Minute)
	seen.Time = time.Time{}
	assert.Equal(t, view.Aggregator{Address: aggregator.URL, Connections: 12, Replicas: []view.Replica{
		{Backend: "core", Endpoint: "127.0.0.1:20001", State: "serving", Requests: 75, InFlight: 3, Watches: 40,
			Timed: 75, Durations: []view.Duration{{Bound: 0.001, Count: 60}, {Bound: 30, Count: 75}}},
		{Backend: "core", Endpoint: "127.0.0.1:20002", State: "ejected", Requests: 1},
	}}, seen)
	assert.Equal(t, map[string]int64{database.URL: 9}, o.etcdRequests)
	assert.Equal(t, []string{"core at 127.0.0.1:20002: a gate differs"}, o.differences)

	// Others who watch at the same time cost nothing.
	o.ask(t.Context(), statuses, aggregator.trusts)
	assert.EqualValues(t, 1, aggregator.asked.Load())
	assert.EqualValues(t, 1, database.asked.Load())

	// An answer that fails leaves the one before, until that is old or the aggregator is not ready.
	aggregator.body.Store("{")
	o.asked[aggregator.URL] = time.Time{}
	o.ask(t.Context(), statuses, aggregator.trusts)
	assert.Contains(t, o.views, aggregator.URL)
	statuses[1].Ready = false
	o.ask(t.Context(), statuses, aggregator.trusts)
	assert.Empty(t, o.views)
	assert.Empty(t, o.asked)
}

func TestAggregatorsTakeTurnsToBeAsked(t *testing.T) {
	t.Parallel()
	o, now := &observer{}, time.Now()
	all := []string{"a", "b", "c"}
	assert.Equal(t, []string{"a", "b"}, o.due(all, now))
	assert.Equal(t, []string{"c"}, o.due(all, now))
	assert.Empty(t, o.due(all, now))
	now = now.Add(time.Second)
	assert.Equal(t, []string{"a", "b"}, o.due(all, now))
	assert.Equal(t, []string{"c", "a"}, o.due(all, now.Add(time.Second)))
}

func TestEventsAreOfTheLastQuarterOfAnHour(t *testing.T) {
	t.Parallel()
	var e events
	now := time.Now()
	died := process.Event{Type: process.Exited, Component: "core", Replica: "core-0", Err: errors.New("signal: killed")}
	e.add(now, died)
	e.add(now.Add(time.Minute), process.Event{Type: process.Started, Component: "core", Replica: "core-0", PID: 17})
	list, last := e.since(now.Add(time.Minute), 0)
	require.Len(t, list, 2)
	assert.EqualValues(t, 2, last)
	assert.Equal(t, Event{Number: 1, Time: now, Component: "core", Replica: "core-0", Type: process.Exited, Text: died.String()}, list[0])
	list, _ = e.since(now.Add(time.Minute), 1)
	require.Len(t, list, 1)
	assert.Equal(t, "starting (pid 17)", list[0].Text)
	list, _ = e.since(now.Add(EventsFor+time.Second), 0)
	require.Len(t, list, 1, "the first one is too old")
	list, last = e.since(now.Add(time.Hour), 0)
	assert.Empty(t, list)
	assert.EqualValues(t, 2, last)

	now = now.Add(time.Hour)
	for range maxEvents + 10 {
		e.add(now, died)
	}
	list, last = e.since(now, 0)
	assert.Len(t, list, maxEvents)
	assert.Equal(t, last, list[len(list)-1].Number)
}
