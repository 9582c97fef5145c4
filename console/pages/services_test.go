// Copyright The Tripod Authors.
// SPDX-License-Identifier: Apache-2.0

package pages

import (
	"context"
	"errors"
	"fmt"
	"math"
	"net/http"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	apiregistrationv1 "k8s.io/kube-aggregator/pkg/apis/apiregistration/v1"

	"github.com/tripod-k8s/tripod/admin/explain"
	"github.com/tripod-k8s/tripod/console/live"
	"github.com/tripod-k8s/tripod/local/names"
	"github.com/tripod-k8s/tripod/local/process"
	"github.com/tripod-k8s/tripod/local/up"
	"github.com/tripod-k8s/tripod/services/list"
)

// observing is a source that always returns these processes.
func observing(failure *error, processes ...process.Status) live.Instance {
	return func(context.Context, int64) (*up.Observation, error) {
		if failure != nil && *failure != nil {
			return nil, *failure
		}
		return &up.Observation{Time: time.Now(), Processes: processes, Differences: []string{evil}}, nil
	}
}

func processOf(component, replica string, ready bool) process.Status {
	return process.Status{Component: component, Replica: replica, PID: 1, Ready: ready, Message: evil, Version: evil}
}

func TestServicesAreShownFromTheAggregatorsDown(t *testing.T) {
	t.Parallel()
	var fails error
	pages := New(unreachable(t), Options{Instance: observing(&fails,
		processOf("etcd", "etcd-0", true), processOf("wardle", "wardle-0", false), processOf("core", "core-0", true), processOf("core", evil, false),
		processOf("scheduler", "scheduler-0", true), processOf("aggregator", "aggregator-0", true))})
	answer := get(t, pages, "/services")
	text := answer.Body.String()
	assert.Equal(t, http.StatusOK, answer.Code)
	assert.Regexp(t, `(?s)Clients.*aggregator <span class="count">1 of 1.*core <span class="count">1 of 2.*✓</span> ready.*…</span> starting.*`+
		`wardle <span class="count">0 of 1.*etcd <span class="count">1 of 1.*scheduler <span class="count">1 of 1.*All replicas`, text)
	assert.NotContains(t, text, evil)
	assert.Equal(t, 1, strings.Count(text, "<script"))
	assert.Contains(t, text, `<script src="services.js" defer></script>`)
	assert.Contains(t, text, "The APIServices cannot be read: ")

	part := get(t, pages, "/services/live")
	assert.Regexp(t, `^<div id="live" data-version="\d+"`, part.Body.String(), "without the rest of the page")
	assert.NotContains(t, part.Body.String(), "<script")
	for path, hasScript := range map[string]bool{"/services": true, "/services/live": true, "/explain": false, "/saved": false} {
		policy := get(t, pages, path).Header().Get("Content-Security-Policy")
		assert.Equal(t, hasScript, strings.Contains(policy, "script-src 'self'; "), path)
		assert.Equal(t, hasScript, strings.Contains(policy, "require-trusted-types-for 'script'"), path)
	}
	script := get(t, pages, "/services.js")
	assert.Contains(t, script.Header().Get("Content-Type"), "javascript")
	for _, forbidden := range []string{"innerHTML", "outerHTML", "insertAdjacentHTML", "eval(", "document.write"} {
		assert.NotContains(t, script.Body.String(), forbidden)
	}

	fails = errors.New("no instance runs")
	assert.Equal(t, http.StatusBadGateway, get(t, New(unreachable(t), Options{Instance: observing(&fails)}), "/services").Code)
}

func TestServicesComeInTheOrderOfTheirList(t *testing.T) {
	t.Parallel()
	sorted := append(list.Names(), "extensionsofours", names.Etcd) // the API service of a user, and no partition
	components := slices.Clone(sorted)
	slices.Reverse(components)
	sorted = slices.Insert(sorted, slices.Index(sorted, list.Extensions)+1, "extensions-team")
	var processes []process.Status
	for _, component := range append(components, "extensions-team") {
		processes = append(processes, processOf(component, component+"-0", true))
	}
	picture, err := live.New(observing(nil, processes...)).Next(t.Context(), 0)
	require.NoError(t, err)
	var got []string
	for _, s := range newServicesPage(picture, picture.At).Services {
		got = append(got, s.Name)
	}
	assert.Equal(t, sorted, got)
	for service, sharded := range map[string]bool{"extensions": true, "extensions-team": true, "extensionsofours": false, "core": false} {
		page := &explainPage{Found: &explain.Explanation{Service: service}}
		page.candidates(&live.Picture{})
		assert.Equal(t, sharded, page.Sharded, service)
	}
}

func TestNumbersOfReplicasHaveUnits(t *testing.T) {
	t.Parallel()
	known := func(value float64) live.Number { return live.Number{Value: value, Known: true} }
	now := time.Now()
	got := showReplica(&live.Replica{
		State: "ejected", Rate: known(12.4), Share: known(0.5), InFlight: known(3), Watches: known(40), CPU: known(0.071), Memory: known(5 << 20),
		P99: known(0.0025), Restarts: 2, Differs: true, Since: now.Add(-live.Covers),
	}, now)
	assert.Equal(t, "12/s · 50% · 3 in flight · 40 watches · 7% CPU · 5 MiB", got.Brief)
	assert.Equal(t, []string{"✗", "bad", "≤ 2.5 ms", "2", "differ", "over 15m"}, []string{got.Mark, got.Kind, got.P99, got.Restarts, got.Settings, got.Since})
	assert.Equal(t, "over 30 s", seconds(known(math.Inf(1))))
	assert.Equal(t, "≤ 5 s", seconds(known(5)))
	assert.Empty(t, showReplica(&live.Replica{Restarts: -1}, now).Brief+seconds(live.Number{}))
	flows := map[float64]int{0: 0, 0.2: 1, 9: 1, 10: 2, 150: 3, 1000: 4, 1e6: 4}
	for rate, flow := range flows {
		assert.Equal(t, flow, flowOf(known(rate)), "%g/s", rate)
	}
}

func TestALaneHasBoxesInItsFrame(t *testing.T) {
	t.Parallel()
	now := time.Now()
	lane := showLane(live.Lane{Replica: "core-0", Spans: []live.Span{
		{From: now.Add(-time.Hour), State: live.Serving}, {From: now.Add(-10 * time.Minute), State: live.Gone}, {From: now, State: live.Serving},
	}}, now)
	assert.Equal(t, []boxes{{"good", "M0 5h300v2h-300zM895 5h5v2h-5z"}, {"bad", "M300 0h600v12h-600z"}}, lane.Boxes)
	assert.Equal(t, "serving at the begin, gone from "+clock(now.Add(-10*time.Minute))+", serving from "+clock(now), lane.Story)
	assert.Equal(t, "serving since "+clock(now), lane.Text)
}

func TestAPIServicesHaveOwners(t *testing.T) {
	t.Parallel()
	of := func(name, group string, service *apiregistrationv1.ServiceReference, status apiregistrationv1.ConditionStatus, why string) apiregistrationv1.APIService {
		s := apiregistrationv1.APIService{ObjectMeta: metav1.ObjectMeta{Name: name}, Spec: apiregistrationv1.APIServiceSpec{Group: group, Service: service}}
		if status != "" {
			s.Status.Conditions = []apiregistrationv1.APIServiceCondition{{
				Type: apiregistrationv1.Available, Status: status, Reason: why, LastTransitionTime: metav1.NewTime(time.Now().Add(-time.Hour)),
			}}
		}
		return s
	}
	tripod := func(name string) *apiregistrationv1.ServiceReference {
		return &apiregistrationv1.ServiceReference{Namespace: "tripod-system", Name: name}
	}
	all := []apiregistrationv1.APIService{
		of("v1.apps", "apps", nil, "True", "Local"), of("v1.", "", tripod("core"), "True", "Passed"), of("v1.x.example.com", "x.example.com", nil, "", ""),
		of("v1.wardle", "wardle.example.com", &apiregistrationv1.ServiceReference{Namespace: "shop", Name: "wardle"}, "False", "MissingEndpoints"),
	}
	for n := range maxAPIServices + 5 {
		all = append(all, of(fmt.Sprintf("v1.a%d", n), "a", tripod("extensions"), "True", "Passed"))
	}
	all = append(all, of("v1.z", "z", tripod("extensions"), "False", "FailedDiscoveryCheck"))
	owners := ownersOf(all)
	var got []string
	for _, o := range owners {
		got = append(got, fmt.Sprintf("%s %d of %d, %d left out", o.Name, o.Available, o.All, o.LeftOff))
	}
	assert.Equal(t, []string{
		"aggregated API server shop/wardle 0 of 1, 0 left out", "core 2 of 2, 0 left out", "extensions 105 of 107, 7 left out",
	}, got)
	assert.Equal(t, shownAPIService{"v1.wardle", "no", "✗", "bad", "60m", "MissingEndpoints"}, owners[0].APIServices[0])
	assert.Equal(t, "v1.z", owners[2].APIServices[0].Name, "the one that is not available")
	assert.Equal(t, "unknown", owners[2].APIServices[1].Available)
}
