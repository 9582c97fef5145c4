// Copyright The Tripod Authors.
// SPDX-License-Identifier: Apache-2.0

package introspection

import (
	"context"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"

	utilversion "k8s.io/apimachinery/pkg/util/version"
	"k8s.io/component-base/version"

	"github.com/tripod-k8s/tripod/test/framework"
	"github.com/tripod-k8s/tripod/test/framework/both"
)

// unusualFlags are flags of all sections that few people set, each with another value than its default.
func unusualFlags(dir string) []string {
	shown := utilversion.MustParse(version.DefaultKubeBinaryVersion).SubtractMinor(1) // no other is allowed
	return []string{
		"--livez-grace-period=1s", "--request-timeout=50s", "--min-request-timeout=900", "--storage-initialization-timeout=50s",
		"--cors-allowed-origins=//example.com$", "--strict-transport-security-directives=max-age=31536000,includeSubDomains", "--goaway-chance=0.01",
		"--max-requests-inflight=300", "--max-mutating-requests-inflight=150", "--shutdown-delay-duration=1s", "--shutdown-send-retry-after",
		"--delete-collection-workers=2", "--default-watch-cache-size=50", "--watch-cache-sizes=pods#10,deployments.apps#20",
		"--etcd-compaction-interval=0", "--etcd-count-metric-poll-period=10s", "--etcd-db-metric-poll-interval=10s", "--etcd-healthcheck-timeout=3s",
		"--etcd-readycheck-timeout=3s", "--lease-reuse-duration-seconds=30", "--storage-media-type=application/json",
		"--http2-max-streams-per-connection=100", "--tls-min-version=VersionTLS13", "--permit-port-sharing",
		"--audit-log-path=" + filepath.Join(dir, "audit.log"), "--audit-log-compress", "--audit-log-mode=batch",
		"--profiling=false", "--debug-socket-path=" + filepath.Join(dir, "debug.sock"),
		"--authorization-webhook-cache-authorized-ttl=1m", "--service-account-extend-token-expiration=false", "--api-audiences=one,two",
		"--default-not-ready-toleration-seconds=10", "--show-hidden-metrics-for-version=" + shown.String(), "--disabled-metrics=apiserver_longrunning_requests",
		"--allow-metric-labels=apiserver_request_total,verb='GET'", "--log-flush-frequency=1s", "--v=1", "--event-ttl=30m",
		"--enable-logs-handler", "--kubelet-preferred-address-types=Hostname", "--aggregator-reject-forwarding-redirect=false",
		"--enable-priority-and-fairness=false", "--apiserver-count=2", "--allow-privileged=false",
	}
}

func TestFlagsDoWhatTheyDoInStock(t *testing.T) {
	env := framework.ForTest(t)
	var sockets string // the directory of those of Tripod
	sides, err := both.Start(t.Context(), func(ctx context.Context, tripod bool) (*both.Side, error) {
		dir, err := os.MkdirTemp("", "flags-") // short, because of the limit on the paths of sockets
		if err != nil {
			return nil, err
		}
		t.Cleanup(func() { _ = os.RemoveAll(dir) })
		server, err := env.StartStock(ctx, framework.StockOptions{Args: unusualFlags(dir), DropIn: tripod})
		if err != nil {
			return nil, err
		}
		if tripod {
			sockets = dir
		}
		return newSide(server.Cluster), nil
	})
	require.NoError(t, err)

	for _, path := range []string{
		"/logs/", "/logs", "/debug/pprof/", "/debug/flags/v", "/debug/api_priority_and_fairness/dump_queues", "/metrics", "/readyz/poststarthook/priority-and-fairness-filter",
		"/api/v1/namespaces/default", "/apis/apiextensions.k8s.io/v1/customresourcedefinitions", "/apis/apiregistration.k8s.io/v1/apiservices", "/apis",
	} {
		want, got := headers(t, sides[0], path), headers(t, sides[1], path)
		if got != want {
			t.Errorf("%s: %+v, want %+v", path, got, want)
		}
	}
	both.NeedsTripod(t)
	for _, socket := range []string{"debug.sock", "debug-extensions.sock", "debug-aggregator.sock"} {
		path := filepath.Join(sockets, socket)
		client := &http.Client{Transport: &http.Transport{DialContext: func(ctx context.Context, _, _ string) (net.Conn, error) {
			return (&net.Dialer{}).DialContext(ctx, "unix", path)
		}}}
		resp, err := client.Get("http://localhost/debug/pprof/heap")
		if err != nil {
			t.Error(err)
		} else if got := read(t, resp); got.code != http.StatusOK {
			t.Errorf("%s: %d", socket, got.code)
		}
	}
}

// shown is what an answer shows of flags.
type shown struct {
	code                    int
	contentType, cors, hsts string
}

func headers(t *testing.T, side *both.Side, path string) shown {
	t.Helper()
	resp, err := side.Open(t.Context(), both.Request{User: admin, Method: http.MethodGet, Path: path, Header: http.Header{"Origin": {"https://example.com"}}})
	require.NoError(t, err)
	a := read(t, resp)
	return shown{a.code, a.contentType, resp.Header.Get("Access-Control-Allow-Origin"), resp.Header.Get("Strict-Transport-Security")}
}
