// Copyright The Tripod Authors.
// SPDX-License-Identifier: Apache-2.0

package introspection

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"regexp"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/tripod-k8s/tripod/test/framework"
	"github.com/tripod-k8s/tripod/test/framework/both"
)

func TestEachServiceTellsAboutItself(t *testing.T) {
	both.NeedsTripod(t)
	for _, tc := range []struct {
		path string
		// has is a text that only this service serves.
		has string
	}{
		{"/metrics", "tripod_backend_requests_total"},
		{"/metrics?service=aggregator", "tripod_backend_requests_total"},
		{"/metrics?service=core", `apiserver_resource_objects{group="",resource="pods"}`},
		{"/metrics?service=extensions", `apiserver_resource_objects{group="apiextensions.k8s.io",resource="customresourcedefinitions"}`},
		{"/metrics/slis?service=extensions", "poststarthook/crd-informer-synced"},
		{"/statusz?service=core", "Binary version"},
		{"/flagz?service=core", "service-cluster-ip-range"},
		{"/flagz?service=extensions", "core-servers"},
		{"/readyz?service=core&verbose", "poststarthook/rbac/bootstrap-roles"},
		{"/readyz/poststarthook/crd-informer-synced?service=extensions", "ok"},
		{"/debug/pprof/heap?debug=1&service=core", "k8s.io/kubernetes/pkg/controlplane"},
		{"/debug/api_priority_and_fairness/dump_priority_levels?service=extensions", "catch-all"},
	} {
		if got := ask(t, tested, admin, get(tc.path)); got.code != http.StatusOK || !strings.Contains(got.body, tc.has) {
			t.Errorf("%s: %d without %s", tc.path, got.code, tc.has)
		}
	}
	for path, want := range map[string]int{"/metrics?service=etcd": 400, "/metrics?service=core&replica=127.0.0.1:1": 404, "/readyz/unknown?service=core": 404} {
		if got := ask(t, tested, admin, get(path)); got.code != want {
			t.Errorf("%s: %d, want %d", path, got.code, want)
		}
	}
	// Which replicas there are is nothing for those without credentials.
	for _, replica := range []string{"127.0.0.1:1", strings.TrimPrefix(fleet.Replica("core-0").URL, "https://")} {
		path := "/livez?service=core&replica=" + replica
		if got := ask(t, tested, anonymous, get(path)); got.code != http.StatusOK {
			t.Errorf("%s for %s: %d, want %d", path, anonymous, got.code, http.StatusOK)
		}
	}
}

func TestServicesTellThoseWhomStockWouldTell(t *testing.T) {
	both.NeedsTripod(t)
	for _, path := range []string{
		"/metrics", "/metrics/slis", "/statusz", "/flagz", "/readyz", "/readyz/etcd", "/debug/pprof/heap", "/debug/flags/v",
		"/debug/api_priority_and_fairness/dump_queues",
	} {
		for _, service := range []string{"core", "extensions"} {
			for _, user := range users {
				want, got := ask(t, stock, user, get(path)), ask(t, tested, user, get(path+"?service="+service))
				assert.Equal(t, want.code, got.code, "%s of %s for %s", path, service, user)
			}
		}
	}
}

func TestAReplicaTellsAboutItself(t *testing.T) {
	both.NeedsTripod(t)
	for _, name := range []string{"core-0", "core-1"} {
		of := "?service=core&replica=" + strings.TrimPrefix(fleet.Replica(name).URL, "https://")
		for range 5 {
			if got := ask(t, tested, admin, get("/flagz"+of)); got.code != http.StatusOK || !replicaFlag(name).MatchString(got.body) {
				t.Errorf("/flagz%s at %s is %d: %s", of, name, got.code, got.body)
			}
		}
		// During an upgrade, the version shows which replicas have been replaced.
		got := ask(t, tested, admin, get("/statusz"+of))
		assert.Equal(t, http.StatusOK, got.code)
		assert.Regexp(t, `(?m)^Binary version[ =:]+1\.\d+`, got.body)
	}
}

// replicaFlag finds the flag --replica in /flagz, which delimits names and values as it likes.
func replicaFlag(name string) *regexp.Regexp {
	return regexp.MustCompile(`(?m)^replica[ =:]+` + name + "$")
}

func TestABackendThatIsAwayIsShownAndTheRestIsReady(t *testing.T) {
	both.NeedsTripod(t)
	extensions := fleet.Replica("extensions-0")
	require.NoError(t, extensions.Kill())
	t.Cleanup(func() {
		assert.NoError(t, errors.Join(extensions.Start(), extensions.WaitReady(context.WithoutCancel(t.Context()))))
		expectEventually(t, "/readyz?verbose", 200, "[+]extensions-available ok")
		// The aggregator shows the last report for a second.
		expectEventually(t, "/readyz?verbose", 200, "[+]poststarthook/crd-informer-synced ok")
	})
	expectEventually(t, "/readyz?verbose", 200, "[-]extensions-available failed: reason withheld, ignored")
	for path, want := range map[string]struct {
		code int
		has  string
	}{
		"/readyz":         {200, "ok"},
		"/livez":          {200, "ok"},
		"/readyz?verbose": {200, "[+]poststarthook/rbac/bootstrap-roles ok"},
		"/readyz/etcd":    {200, "ok"},
		"/readyz/poststarthook/rbac/bootstrap-roles":   {200, "ok"},
		"/readyz/poststarthook/crd-informer-synced":    {500, "extensions cannot be asked"},
		"/readyz/extensions-available":                 {500, "internal server error"},
		"/readyz/core-available":                       {200, "ok"},
		"/readyz?verbose&exclude=extensions-available": {200, "[+]extensions-available excluded: ok"},
		"/metrics?service=extensions":                  {503, "extensions is not available"},
		"/metrics?service=core":                        {200, "process_start_time_seconds"},
	} {
		if got := ask(t, tested, admin, get(path)); got.code != want.code || !strings.Contains(got.body, want.has) {
			t.Errorf("%s: %d, want %d and %s in\n%s", path, got.code, want.code, want.has, got.body)
		}
	}
}

func expectEventually(t *testing.T, path string, code int, has string) {
	t.Helper()
	err := framework.Poll(context.WithoutCancel(t.Context()), path+" says "+has, func(context.Context) error {
		if got := ask(t, tested, admin, get(path)); got.code != code || !strings.Contains(got.body, has) {
			return fmt.Errorf("%d %s", got.code, got.body)
		}
		return nil
	})
	assert.NoError(t, err)
}

func TestProbesNeedNoCredentials(t *testing.T) {
	both.NeedsTripod(t)
	for _, replica := range []string{"aggregator-0", "core-0", "extensions-0"} {
		for path, want := range map[string]int{
			"/livez": 200, "/readyz": 200, "/healthz": 200, "/readyz/etcd": 200, "/readyz/unknown": 404, "/metrics": 404, "/debug/pprof/": 404, "/": 404,
			"/readyz?verbose&exclude=etcd": 200,
		} {
			got := probe(t, replica, path)
			assert.Equal(t, want, got.code, "%s%s", replica, path)
			if strings.Contains(path, "exclude") && !strings.Contains(got.body, "[+]etcd excluded: ok") {
				t.Errorf("%s%s: %s", replica, path, got.body)
			}
		}
	}
	if got := probe(t, "aggregator-0", "/readyz?verbose"); !strings.Contains(got.body, "[+]poststarthook/crd-informer-synced ok") {
		t.Errorf("the aggregator does not show all services: %s", got.body)
	}
}

func probe(t *testing.T, replica, path string) answer {
	t.Helper()
	req, err := http.NewRequestWithContext(t.Context(), http.MethodGet, fleet.Replica(replica).ProbeURL+path, nil)
	require.NoError(t, err)
	resp, err := http.DefaultClient.Do(req)
	require.NoError(t, err)
	return read(t, resp)
}
