// Copyright The Tripod Authors.
// SPDX-License-Identifier: Apache-2.0

package pages

import (
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"regexp"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"k8s.io/client-go/rest"

	"github.com/tripod-k8s/tripod/admin/explain"
	"github.com/tripod-k8s/tripod/console/live"
	"github.com/tripod-k8s/tripod/console/searchclient"
)

const apiServices = `{"items":[{"metadata":{"name":"v1.apps"},"spec":{"group":"apps"},"status":{"conditions":[{"type":"Available","status":"True"}]}}]}`

// cluster is an API server whose aggregator publishes metrics to one user.
type cluster struct {
	*httptest.Server
	metrics atomic.Value
	asked   atomic.Int32
}

func newCluster(t *testing.T, metrics string) *cluster {
	c := &cluster{}
	c.metrics.Store(metrics)
	c.Server = httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, req *http.Request) {
		switch {
		case req.URL.Path == apiServicesPath:
			io.WriteString(w, apiServices) //nolint:errcheck // the test ends
		case req.URL.Path != "/metrics":
			w.WriteHeader(http.StatusNotFound)
		case req.Header.Get("Authorization") != "Bearer ann":
			c.asked.Add(1)
			w.WriteHeader(http.StatusForbidden)
			fmt.Fprintf(w, `{"kind":"Status","message":%q}`, evil)
		default:
			c.asked.Add(1)
			io.WriteString(w, c.metrics.Load().(string)) //nolint:errcheck // the test ends
		}
	}))
	t.Cleanup(c.Close)
	return c
}

// pages returns those of a session of a user.
func (c *cluster) pages(t *testing.T, user string, room *live.Room) *Pages {
	t.Helper()
	client, err := searchclient.New(&rest.Config{Host: c.URL, BearerToken: user})
	require.NoError(t, err)
	return New(client, Options{Room: room, User: user})
}

const oneCore = `# TYPE tripod_backend_endpoint_state gauge
tripod_backend_endpoint_state{backend="core",endpoint="192.0.2.1:6443",state="serving"} 1
tripod_backend_endpoint_state{backend="core",endpoint="192.0.2.2:6443",state="refusing"} 1
# TYPE process_start_time_seconds gauge
process_start_time_seconds 1.79596322327e+09
# TYPE process_resident_memory_bytes gauge
process_resident_memory_bytes 1.048576e+08
# TYPE kubernetes_build_info gauge
kubernetes_build_info{git_version="v1.37.2"} 1
`

func TestServicesOfAClusterAreTheViewOfAnAggregator(t *testing.T) {
	t.Parallel()
	c := newCluster(t, oneCore)
	pages := c.pages(t, "ann", nil)
	answer := get(t, pages, "/services")
	text := answer.Body.String()
	assert.Equal(t, http.StatusOK, answer.Code)
	assert.Contains(t, text, "The view of the aggregator that started at 2026-11-29 14:40:23.27 UTC, with version v1.37.2, at ")
	assert.Regexp(t, `(?s)aggregator <span class="count">the one that answers.*100 MiB.*core <span class="count">1 of 2.*✓</span> serving.*✗</span> refusing`, text)
	assert.Regexp(t, `data-every="[1-9]\d{3,}"`, text, "the script waits, and not the console")
	assert.Contains(t, text, "core: 1 of 1 available")
	assert.NotContains(t, text, "0 MiB ·")
	assert.NotContains(t, text, `id="tier-etcd"`)
	assert.Contains(t, answer.Header().Get("Content-Security-Policy"), "script-src 'self'")
	for range 5 {
		assert.Contains(t, get(t, pages, "/services/live?after=1").Body.String(), `id="card-core at 192.0.2.1:6443"`)
	}
	version := regexp.MustCompile(`data-version="(\d+)"`).FindStringSubmatch(text)
	require.NotNil(t, version, text)
	unchanged := get(t, pages, "/services/live?after="+version[1])
	assert.Equal(t, http.StatusNoContent, unchanged.Code, "the page has this picture")
	assert.Empty(t, unchanged.Body)
	assert.EqualValues(t, 1, c.asked.Load(), "pages share the answer")
}

func TestServicesOfAClusterNeedTheRightToReadMetrics(t *testing.T) {
	t.Parallel()
	c := newCluster(t, oneCore)
	for _, path := range []string{"/services", "/services/live"} {
		pages := c.pages(t, "tom", nil)
		answer := get(t, pages, path)
		assert.Equal(t, http.StatusOK, answer.Code)
		assert.Contains(t, answer.Body.String(), "You may not read /metrics of the aggregator, which has the states of replicas.")
		assert.Contains(t, answer.Body.String(), "core: 1 of 1 available", "what the user may see")
		assert.Contains(t, answer.Body.String(), `data-every="10000"`)
		assert.NotContains(t, answer.Body.String(), "192.0.2.1")
		get(t, pages, path)
	}
	assert.EqualValues(t, 2, c.asked.Load(), "each session has been refused once")
	c.metrics.Store("up 1\n")
	assert.Contains(t, get(t, c.pages(t, "ann", nil), "/services").Body.String(), "has no metric tripod_backend_endpoint_state")
	assert.Contains(t, get(t, New(unreachable(t), Options{}), "/services").Body.String(), "does not answer")
}

// TestUsersOfATeamDoNotShareViews has a user without the right look after one who has it.
func TestUsersOfATeamDoNotShareViews(t *testing.T) {
	t.Parallel()
	c, room := newCluster(t, oneCore), live.NewRoom(2, 1)
	ann, tom := c.pages(t, "ann", room), c.pages(t, "tom", room)
	assert.Contains(t, get(t, ann, "/services").Body.String(), "192.0.2.1")
	assert.NotContains(t, get(t, tom, "/services").Body.String(), "192.0.2.1")
	assert.NotContains(t, get(t, tom, "/services/live").Body.String(), "192.0.2.1")
	assert.Contains(t, get(t, c.pages(t, "ann", room), "/services").Body.String(), "Too many pages of services are open")
	ann.End()
	assert.NotContains(t, get(t, ann, "/services").Body.String(), "192.0.2.1", "the session has ended")
	assert.Contains(t, get(t, c.pages(t, "ann", room), "/services").Body.String(), "192.0.2.1")
}

func TestTheNextRequestGoesToReplicasOfOneState(t *testing.T) {
	t.Parallel()
	of := func(states ...live.State) *live.Picture {
		s := live.Service{Name: "core"}
		for _, state := range states {
			s.Replicas = append(s.Replicas, live.Replica{Name: string(state), State: state})
		}
		return &live.Picture{View: &live.View{Version: "v1.37.2"}, Services: []live.Service{{Name: "aggregator"}, s}}
	}
	names := func(replicas []shownReplica) (all []string) {
		for _, r := range replicas {
			all = append(all, r.Name)
		}
		return all
	}
	for name, test := range map[string]struct{ states, next []live.State }{
		"serving":             {[]live.State{"ejected", "serving", "draining"}, []live.State{"serving"}},
		"the best that is":    {[]live.State{"ejected", "draining"}, []live.State{"draining"}},
		"none that is good":   {[]live.State{"frozen", "refusing"}, nil},
		"of a later version":  {[]live.State{"dreaming"}, nil},
		"ready, and no other": {[]live.State{"ready", "busy"}, []live.State{"ready"}},
	} {
		page := &explainPage{Found: &explain.Explanation{Service: "core"}}
		page.candidates(of(test.states...))
		var want []string
		for _, state := range test.next {
			want = append(want, string(state))
		}
		assert.Equal(t, want, names(page.Candidates), name)
		assert.Len(t, page.Others, len(test.states)-len(want), name)
		assert.Equal(t, "the aggregator that answers, with version v1.37.2", page.View)
	}
}

func TestHostileBackendsAreText(t *testing.T) {
	t.Parallel()
	quoted := strings.ReplaceAll(evil, `"`, `\"`)
	metrics := oneCore + fmt.Sprintf(`tripod_backend_endpoint_state{backend="%[1]s",endpoint="%[1]s",state="%[1]s"} 1
tripod_backend_endpoint_state{backend="a",endpoint="%[2]s",state="serving"} 1
tripod_backend_endpoint_state{backend="turned`+"\u202e"+`",endpoint="b",state="serving"} 1
`, quoted, strings.Repeat("x", 10_000))
	text := get(t, newCluster(t, metrics).pages(t, "ann", nil), "/services").Body.String()
	assert.NotContains(t, text, evil)
	assert.NotContains(t, text, "<img src=x")
	assert.Contains(t, text, "&lt;script&gt;")
	assert.Contains(t, text, "turned[U+202E]")
	assert.Contains(t, text, "those whose names are too long: 1.")
	assert.Equal(t, 1, strings.Count(text, "<script"))
}
