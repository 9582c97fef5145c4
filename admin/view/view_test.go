// Copyright The Tripod Authors.
// SPDX-License-Identifier: Apache-2.0

package view

import (
	"errors"
	"fmt"
	"io"
	"strings"
	"testing"
	"testing/iotest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

const metrics = `# HELP apiserver_request_total Requests.
# TYPE apiserver_request_total counter
apiserver_request_total{verb="GET"} 5
# TYPE tripod_backend_requests_total counter
tripod_backend_requests_total{backend="core",code="2xx",endpoint="192.0.2.1:6443"} 70
tripod_backend_requests_total{backend="core",code="5xx",endpoint="192.0.2.1:6443"} 5
# TYPE tripod_backend_in_flight gauge
tripod_backend_in_flight{backend="core",endpoint="192.0.2.1:6443",kind="short"} 3
tripod_backend_in_flight{backend="core",endpoint="192.0.2.1:6443",kind="watch"} 40
# TYPE tripod_backend_endpoint_state gauge
tripod_backend_endpoint_state{backend="core",endpoint="192.0.2.1:6443",state="serving"} 1
tripod_backend_endpoint_state{backend="core",endpoint="192.0.2.2:6443",state="ejected"} 1
# TYPE tripod_backend_request_duration_seconds histogram
tripod_backend_request_duration_seconds_bucket{backend="core",endpoint="192.0.2.1:6443",le="0.001"} 60
tripod_backend_request_duration_seconds_bucket{backend="core",endpoint="192.0.2.1:6443",le="+Inf"} 75
tripod_backend_request_duration_seconds_sum{backend="core",endpoint="192.0.2.1:6443"} 1
tripod_backend_request_duration_seconds_count{backend="core",endpoint="192.0.2.1:6443"} 75
# TYPE tripod_client_connections gauge
tripod_client_connections 12
# TYPE tripod_configuration_differences gauge
tripod_configuration_differences{between="replicas",kind="audit"} 2
tripod_configuration_differences{between="services",kind="audit"} 0
# TYPE process_start_time_seconds gauge
process_start_time_seconds 1.79596322327e+09
# TYPE process_cpu_seconds_total counter
process_cpu_seconds_total 1.64
# TYPE process_resident_memory_bytes gauge
process_resident_memory_bytes 9.5363072e+07
# TYPE kubernetes_build_info gauge
kubernetes_build_info{git_version="v1.37.2",major="1"} 1
`

func TestAViewHasReplicasAndTheProcess(t *testing.T) {
	t.Parallel()
	got, err := Read(strings.NewReader(metrics))
	require.NoError(t, err)
	assert.WithinDuration(t, time.Now(), got.Time, time.Minute)
	got.Time = time.Time{}
	assert.Equal(t, &Aggregator{
		Connections: 12,
		Replicas: []Replica{
			{Backend: "core", Endpoint: "192.0.2.1:6443", State: "serving", Requests: 75, InFlight: 3, Watches: 40,
				Timed: 75, Durations: []Duration{{0.001, 60}}},
			{Backend: "core", Endpoint: "192.0.2.2:6443", State: "ejected"},
		},
		Process: &Process{
			Started: time.Date(2026, 11, 29, 14, 40, 23, 270e6, time.UTC), Version: "v1.37.2", CPUSeconds: 1.64, ResidentMemoryBytes: 95363072,
			Differences: []string{"2 in audit between replicas"},
		},
	}, got)
}

func TestOnlyAggregatorsHaveAView(t *testing.T) {
	t.Parallel()
	for name, test := range map[string]struct {
		text io.Reader
		want error
	}{
		"an API server of another kind": {strings.NewReader("apiserver_request_total{verb=\"GET\"} 5\n"), ErrNoStates},
		"an empty answer":               {strings.NewReader(""), ErrNoStates},
		"too many metrics":              {io.LimitReader(repeated("x 1\n"), maxText+10), ErrTooLong},
		"too many replicas":             {io.LimitReader(repeated("tripod_backend_endpoint_state{} 1\n"), maxText), ErrTooLong},
		"a line without an end":         {io.LimitReader(repeated("x"), maxText), ErrTooLong},
		"an answer that breaks off":     {io.MultiReader(strings.NewReader(metrics), iotest.ErrReader(io.ErrUnexpectedEOF)), io.ErrUnexpectedEOF},
	} {
		_, err := Read(test.text)
		assert.ErrorIs(t, err, test.want, name)
	}
	for _, text := range []string{"<html>", `{"kind":"Status"}`, metrics + "tripod_client_connections{", "\x00"} {
		_, err := Read(strings.NewReader(text))
		assert.Error(t, err, text)
		assert.False(t, errors.Is(err, ErrTooLong), text)
	}
}

// repeated is a text without an end.
type repeated string

func (r repeated) Read(into []byte) (n int, err error) {
	for len(into)-n >= len(r) {
		n += copy(into[n:], r)
	}
	if n == 0 {
		n = copy(into, r) // the last line is incomplete
	}
	return n, nil
}

func TestAViewOfHostileMetricsIsBounded(t *testing.T) {
	t.Parallel()
	long := strings.Repeat("x", maxLabel+1)
	var text strings.Builder
	fmt.Fprintf(&text, "tripod_backend_endpoint_state{backend=%q,endpoint=\"a\",state=\"serving\"} 1\n", long)
	fmt.Fprintf(&text, "tripod_backend_endpoint_state{backend=\"a\",endpoint=%q,state=\"serving\"} 1\n", long)
	fmt.Fprintf(&text, "tripod_backend_endpoint_state{backend=\"a\",endpoint=\"a\",state=%q} 1\n", long)
	fmt.Fprint(&text, "tripod_backend_endpoint_state{backend=\"b\",endpoint=\"b\",state=\"serving\"} 1\n")
	fmt.Fprint(&text, "# TYPE tripod_backend_requests_total counter\n")
	for i, value := range []string{"NaN", "+Inf", "-Inf", "-5", "1e300"} {
		fmt.Fprintf(&text, "tripod_backend_requests_total{backend=\"b\",endpoint=\"b\",code=\"%d\"} %s\n", i, value)
	}
	fmt.Fprint(&text, "# TYPE tripod_backend_request_duration_seconds histogram\n")
	for i := range 100 {
		fmt.Fprintf(&text, "tripod_backend_request_duration_seconds_bucket{backend=\"b\",endpoint=\"b\",le=\"%d\"} 1\n", i)
	}
	fmt.Fprintf(&text, "process_start_time_seconds NaN\nkubernetes_build_info{git_version=%q} 1\n", long)
	fmt.Fprint(&text, "# TYPE tripod_configuration_differences gauge\n")
	for i := range 100 {
		fmt.Fprintf(&text, "tripod_configuration_differences{kind=\"%d\"} 1\n", i)
	}
	got, err := Read(strings.NewReader(text.String()))
	require.NoError(t, err)
	assert.Equal(t, 3, got.LeftOff)
	require.Len(t, got.Replicas, 1)
	assert.Zero(t, got.Replicas[0].Requests)
	assert.Len(t, got.Replicas[0].Durations, maxBounds)
	assert.Zero(t, got.Process.Started)
	assert.Empty(t, got.Process.Version)
	assert.Len(t, got.Process.Differences, 20)
}
