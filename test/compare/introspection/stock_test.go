// Copyright The Tripod Authors.
// SPDX-License-Identifier: Apache-2.0

package introspection

import (
	"encoding/json"
	"net/http"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/tripod-k8s/tripod/test/framework/both"
)

var roots = []string{"/livez", "/readyz", "/healthz"}

func isHealth(path string) bool {
	return slices.ContainsFunc(roots, func(root string) bool { return strings.HasPrefix(path, root) })
}

// index returns the paths that a side lists.
func index(t *testing.T, side *both.Side) []string {
	t.Helper()
	var listed metav1.RootPaths
	require.NoError(t, json.Unmarshal([]byte(ask(t, side, admin, get("/")).body), &listed))
	return listed.Paths
}

func TestThePathsOfStockAreThere(t *testing.T) {
	ours := index(t, tested)
	for _, path := range index(t, stock) {
		assert.Contains(t, ours, path, "%s is not in the index", path)
	}
}

// unlisted are paths that stock has without listing them, and some that it does not have.
var unlisted = []string{
	"/metrics/cadvisor", "/metrics?format=text", "/configz", "/logs", "/logs/", "/logs/kube-apiserver.log", "/version/",
	"/statusz/", "/flagz/x", "/readyz/", "/readyz/unknown", "/livez/unknown", "/healthz/unknown/check", "/livez/poststarthook",
	"/debug", "/debug/", "/debug/unknown", "/debug/pprof", "/debug/pprof/", "/debug/pprof/heap?debug=1", "/debug/pprof/goroutine",
	"/debug/pprof/cmdline", "/debug/pprof/symbol", "/debug/pprof/unknown", "/debug/pprof/profile?seconds=1", "/debug/pprof/trace?seconds=0.01",
	"/debug/flags", "/debug/flags/v", "/debug/flags/unknown",
	"/debug/api_priority_and_fairness", "/debug/api_priority_and_fairness/", "/debug/api_priority_and_fairness/dump_priority_levels",
	"/debug/api_priority_and_fairness/dump_queues", "/debug/api_priority_and_fairness/dump_requests",
	"/debug/api_priority_and_fairness/dump_requests?includeRequestDetails=1",
}

func TestEveryPathAnswersEverybodyAsStockDoes(t *testing.T) {
	var requests []request
	for _, path := range slices.Concat(index(t, stock), unlisted) {
		requests = append(requests, get(path))
	}
	structured := func(kind string) http.Header {
		return http.Header{"Accept": {"application/json;v=v1alpha1;g=config.k8s.io;as=" + kind}}
	}
	requests = append(requests,
		request{method: http.MethodGet, path: "/statusz", header: structured("Statusz")},
		request{method: http.MethodGet, path: "/flagz", header: structured("Flagz")},
		request{method: http.MethodGet, path: "/flagz", header: structured("Statusz")},
		request{method: http.MethodGet, path: "/statusz", header: http.Header{"Accept": {"application/yaml"}}},
		request{method: http.MethodGet, path: "/metrics", header: http.Header{"Accept": {"application/openmetrics-text;version=1.0.0"}}},
		request{method: http.MethodHead, path: "/readyz"}, request{method: http.MethodHead, path: "/readyz?verbose"},
		request{method: http.MethodPost, path: "/readyz"}, request{method: http.MethodPost, path: "/readyz/etcd"},
		request{method: http.MethodDelete, path: "/metrics"}, request{method: http.MethodDelete, path: "/metrics/slis"},
		request{method: http.MethodPut, path: "/debug/flags/v", body: "nonsense"}, request{method: http.MethodPut, path: "/debug/flags/v", body: "0"},
	)
	for _, user := range users {
		t.Run(user, func(t *testing.T) {
			t.Parallel()
			for _, r := range requests {
				want, got := ask(t, stock, user, r), ask(t, tested, user, r)
				if got.code != want.code || got.contentType != want.contentType {
					t.Errorf("%s: %d %s, want %d %s", r, got.code, got.contentType, want.code, want.contentType)
				}
				if isHealth(r.path) && !strings.Contains(r.path, "verbose") && got.body != want.body {
					t.Errorf("%s: %s, want %s", r, got.body, want.body)
				}
			}
		})
	}
}

// checks returns the lines about checks, in order, and the others.
func checks(body string) (lines, rest []string) {
	for line := range strings.Lines(body) {
		line = strings.TrimSpace(line)
		if strings.HasPrefix(line, "[") {
			lines = append(lines, line)
		} else if line != "" {
			rest = append(rest, line)
		}
	}
	return lines, rest
}

func TestTheChecksOfStockAreShown(t *testing.T) {
	for _, root := range roots {
		for _, query := range []string{
			"?verbose", "?verbose&exclude=etcd", "?verbose=1&exclude=poststarthook/rbac/bootstrap-roles&exclude=poststarthook/crd-informer-synced",
			"?verbose&exclude=unknown&exclude=etcd", "?exclude=unknown",
		} {
			want, got := ask(t, stock, admin, get(root+query)), ask(t, tested, admin, get(root+query))
			wantLines, wantRest := checks(want.body)
			gotLines, gotRest := checks(got.body)
			for _, line := range wantLines {
				assert.Contains(t, gotLines, line, "%s%s: %q is missing in\n%s", root, query, line, got.body)
			}
			if !slices.Equal(gotRest, wantRest) {
				t.Errorf("%s%s: %q, want %q", root, query, gotRest, wantRest)
			}
		}
	}
}
