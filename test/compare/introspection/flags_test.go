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

	"golang.org/x/sync/errgroup"

	"github.com/tripod-k8s/tripod/test/framework"
)

// unusualFlags are flags of all sections that few people set, each with another value than its default.
func unusualFlags(dir string) []string {
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
		"--default-not-ready-toleration-seconds=10", "--show-hidden-metrics-for-version=1.35", "--disabled-metrics=apiserver_longrunning_requests",
		"--allow-metric-labels=apiserver_request_total,verb='GET'", "--log-flush-frequency=1s", "--v=1", "--event-ttl=30m",
		"--enable-logs-handler", "--kubelet-preferred-address-types=Hostname", "--aggregator-reject-forwarding-redirect=false",
		"--enable-priority-and-fairness=false", "--apiserver-count=2", "--allow-privileged=false",
	}
}

func TestFlagsDoWhatTheyDoInStock(t *testing.T) {
	env := framework.ForTest(t)
	var clusters [2]*framework.Stock
	var dirs [2]string
	starting, ctx := errgroup.WithContext(t.Context())
	for i, dropIn := range []bool{false, true} {
		var err error
		if dirs[i], err = os.MkdirTemp("", "flags-"); err != nil { // short, because of the limit on the paths of sockets
			t.Fatal(err)
		}
		t.Cleanup(func() { _ = os.RemoveAll(dirs[i]) })
		starting.Go(func() (err error) {
			clusters[i], err = env.StartStock(ctx, framework.StockOptions{Args: unusualFlags(dirs[i]), DropIn: dropIn})
			return err
		})
	}
	if err := starting.Wait(); err != nil {
		t.Fatal(err)
	}

	for _, path := range []string{
		"/logs/", "/logs", "/debug/pprof/", "/debug/flags/v", "/debug/api_priority_and_fairness/dump_queues", "/metrics", "/readyz/poststarthook/priority-and-fairness-filter",
		"/api/v1/namespaces/default", "/apis/apiextensions.k8s.io/v1/customresourcedefinitions", "/apis/apiregistration.k8s.io/v1/apiservices", "/apis",
	} {
		want, got := headers(t, clusters[0].Cluster, path), headers(t, clusters[1].Cluster, path)
		if got != want {
			t.Errorf("%s: %+v, want %+v", path, got, want)
		}
	}
	for _, socket := range []string{"debug.sock", "debug-extensions.sock", "debug-aggregator.sock"} {
		path := filepath.Join(dirs[1], socket)
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

func headers(t *testing.T, cluster *framework.Cluster, path string) shown {
	t.Helper()
	req, err := http.NewRequestWithContext(t.Context(), http.MethodGet, cluster.URL+path, nil)
	if err != nil {
		t.Fatal(err)
	}
	req.Header.Set("Origin", "https://example.com")
	resp, err := clientOf(t, cluster, admin).Do(req)
	if err != nil {
		t.Fatal(err)
	}
	a := read(t, resp)
	return shown{a.code, a.contentType, resp.Header.Get("Access-Control-Allow-Origin"), resp.Header.Get("Strict-Transport-Security")}
}
