// Copyright The Tripod Authors.
// SPDX-License-Identifier: Apache-2.0

package up

import (
	"crypto/tls"
	"crypto/x509"
	"fmt"
	"net/http"
	"net/http/httptest"
	"reflect"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"

	"github.com/tripod-k8s/tripod/admin/view"
	"github.com/tripod-k8s/tripod/local/process"
)

const someMetrics = `# HELP go_goroutines Number of goroutines that currently exist.
# TYPE go_goroutines gauge
go_goroutines 17
# HELP tripod_backend_requests_total [ALPHA] Requests sent to a replica.
# TYPE tripod_backend_requests_total counter
tripod_backend_requests_total{backend="core",code="2xx",endpoint="127.0.0.1:20001"} 70
tripod_backend_requests_total{backend="core",code="5xx",endpoint="127.0.0.1:20001"} 5
tripod_backend_requests_total{backend="core",code="2xx",endpoint="127.0.0.1:20002"} 25
tripod_backend_requests_total{backend="extensions",code="2xx",endpoint="127.0.0.1:20003"} 0
tripod_backend_requests_total{backend="v1.wardle.example.com",code="2xx",endpoint="127.0.0.1:20001"} 1
`

func counts(aggregator string) requestCounts {
	return requestCounts{
		{aggregator, "core", "127.0.0.1:20001"}:       75,
		{aggregator, "core", "127.0.0.1:20002"}:       25,
		{aggregator, "extensions", "127.0.0.1:20003"}: 0,
	}
}

func TestRequestsAreCountedByTheMetricsOfAggregators(t *testing.T) {
	serve := func(status int, body string) *httptest.Server {
		server := httptest.NewTLSServer(http.HandlerFunc(func(w http.ResponseWriter, req *http.Request) {
			assert.Equal(t, "/metrics", req.URL.Path)
			w.WriteHeader(status)
			fmt.Fprint(w, body)
		}))
		t.Cleanup(server.Close)
		return server
	}
	good := serve(http.StatusOK, someMetrics)
	roots := x509.NewCertPool()
	roots.AddCert(good.Certificate())
	config := &tls.Config{RootCAs: roots, MinVersion: tls.VersionTLS12}
	for _, tc := range []struct {
		name    string
		servers []string
		want    requestCounts
	}{
		{"one that counts", []string{good.URL}, counts(good.URL)},
		{"one that counts nothing", []string{serve(http.StatusOK, "go_goroutines 17\n").URL}, requestCounts{}},
		{"others that do not answer", []string{
			good.URL, serve(http.StatusServiceUnavailable, someMetrics).URL, "https://127.0.0.1:1", serve(http.StatusOK, view.Requests+"{").URL,
		}, counts(good.URL)},
		{"none", nil, requestCounts{}},
	} {
		t.Run(tc.name, func(t *testing.T) {
			if got := askForCounts(t.Context(), config, tc.servers); !reflect.DeepEqual(got, tc.want) {
				t.Errorf("counts are %v, want %v", got, tc.want)
			}
		})
	}
}

func TestCountsSinceAnEarlierTime(t *testing.T) {
	one, two, gone := way{endpoint: "one"}, way{endpoint: "two"}, way{endpoint: "gone"}
	before := requestCounts{one: 10, two: 10, gone: 10}
	got := requestCounts{one: 15, two: 3}.since(before)
	if want := (requestCounts{one: 5, two: 3}); !reflect.DeepEqual(got, want) {
		t.Errorf("counts are %v, want %v", got, want)
	}
}

func TestSharesAreThoseOfTheReplicasOfAService(t *testing.T) {
	const first, second = "https://127.0.0.1:6443", "https://127.0.0.1:6444"
	statuses := func() []Status {
		var list []Status
		for _, s := range [][2]string{
			{"etcd", "https://127.0.0.1:20009"}, {"core", "https://127.0.0.1:20001"}, {"core", "https://127.0.0.1:20002"},
			{"core", "https://127.0.0.1:20004"}, {"extensions", "https://127.0.0.1:20003"}, {"aggregator", first}, {"aggregator", second},
		} {
			list = append(list, Status{Status: process.Status{Component: s[0], Address: s[1]}})
		}
		return list
	}
	describe := func(list []Status) string {
		var words []string
		for _, s := range list {
			word := s.Component
			if s.Requests != nil {
				word += fmt.Sprintf(" %d", *s.Requests)
			}
			if s.Share != nil {
				word += fmt.Sprintf(" %.2f", *s.Share)
			}
			words = append(words, word)
		}
		return strings.Join(words, ", ")
	}
	both := counts(first)
	both[way{second, "core", "127.0.0.1:20002"}] = 100
	for _, tc := range []struct {
		name   string
		counts requestCounts
		want   string
	}{
		{"two aggregators", both, "etcd, core 75 0.38, core 125 0.62, core 0 0.00, extensions 0, aggregator 100 0.50, aggregator 100 0.50"},
		{"one does not answer", counts(first), "etcd, core 75 0.75, core 25 0.25, core 0 0.00, extensions 0, aggregator 100 1.00, aggregator 0 0.00"},
		{"nobody counts", requestCounts{}, "etcd, core, core, core, extensions, aggregator, aggregator"},
	} {
		list := statuses()
		addCounts(list, tc.counts)
		assert.Equal(t, tc.want, describe(list), tc.name)
	}
}
