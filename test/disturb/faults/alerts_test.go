// Copyright The Tripod Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/tripod-k8s/tripod/test/framework"
)

// TestAlertsAreJudged tests what the command calls wrong.
func TestAlertsAreJudged(t *testing.T) {
	expected := expectation{must: []string{backendDown}, may: []string{serverErrors}}
	for _, test := range []struct {
		name  string
		fired []firing
		wrong []string
	}{
		{"what must fire, fires", []firing{{backendDown, time.Minute}}, nil},
		{"what may fire, fires, too", []firing{{backendDown, time.Minute}, {serverErrors, 0}}, nil},
		{"what must fire, does not", []firing{{serverErrors, time.Minute}}, []string{"TripodBackendDown did not fire"}},
		{
			"another alert fires", []firing{{backendDown, time.Minute}, {memberDown, time.Minute}},
			[]string{"TripodEtcdMemberDown fired, which says nothing about this fault"},
		},
		{"it fires before the fault", []firing{{backendDown, -time.Minute}}, []string{"TripodBackendDown fired before the fault"}},
	} {
		t.Run(test.name, func(t *testing.T) { assert.Equal(t, test.wrong, expected.judge(test.fired)) })
	}
	wrong := expectation{}.judge([]firing{{backendDown, 0}})
	assert.Equal(t, []string{"TripodBackendDown fired, which says nothing about this fault"}, wrong, "none is expected")
}

// TestSidesExpectTheirAlerts tests what holds where each service has one replica.
func TestSidesExpectTheirAlerts(t *testing.T) {
	f := fault{}.fires(replicaDown).alone(coreAway)
	assert.Equal(t, []string{replicaDown}, f.expects(sideOf(tripod)).must)
	assert.Equal(t, coreAway, f.expects(sideOf(singleTripod)))
	assert.Equal(t, []string{replicaDown}, fault{}.fires(replicaDown).expects(sideOf(singleTripod)).must)
}

// TestExpectedAlertsExist finds mistakes in names, and alerts that the chart no longer has.
func TestExpectedAlertsExist(t *testing.T) {
	chart, err := os.ReadFile("../../../deploy/helm/tripod/monitoring/alerts.yaml")
	require.NoError(t, err)
	exist := []string{readsBurn, writesBurn, watchesBurn, customBurn} // a template makes these
	for _, match := range regexp.MustCompile(`(?m)^- alert: (\w+)$`).FindAllStringSubmatch(string(chart), -1) {
		exist = append(exist, match[1])
	}
	for _, f := range faults() {
		for _, name := range []string{tripod, singleTripod} {
			e := f.expects(sideOf(name))
			assert.Subset(t, exist, slices.Concat(e.must, e.may), f.name)
		}
	}
}

// TestAlertsHaveATable checks rows with alerts, without, with a mistake, and of faults that were left out or no longer exist.
func TestAlertsHaveATable(t *testing.T) {
	r := &alertReport{Results: []alertResult{
		{Fault: "kill one core", Side: tripod, Fired: []firing{{replicaDown, 13 * time.Minute}, {serverErrors, 20 * time.Minute}}},
		{Fault: "kill one core", Side: singleTripod, Wrong: []string{"it burns"}},
		{Fault: "kill etcd", Side: tripod},
		{Fault: "stop and continue etcd", Side: tripod, LeftOut: "needs root"},
		{Fault: "of old", Side: tripod},
	}}
	_, rows, found := strings.Cut(r.table(), "| --- | --- | --- |\n")
	require.True(t, found, r.table())
	assert.Equal(t, strings.Join([]string{
		"| kill one core | Tripod | TripodReplicaDown (13), TripodErrors (20) |",
		"| kill one core | single Tripod | none, **it burns** |",
		"| kill etcd | Tripod | none |",
		"| stop and continue etcd | Tripod | left out: needs root |", "",
	}, "\n"), rows)
	assert.Contains(t, r.table(), "during 3 faults.")
	assert.EqualError(t, r.wrong(), "single Tripod: kill one core: it burns")
}

// TestRulesAreCompressed tests each part of a rule.
func TestRulesAreCompressed(t *testing.T) {
	for _, test := range []struct{ name, expr, holds, wantExpr, wantHolds string }{
		{"a gauge", `up == 0`, "10m", `up == 0`, "10s"},
		{"windows", `rate(a[5m]) / rate(b{c="d"}[1h30m]) > 0.03`, "30s", `rate(a[5s]) / rate(b{c="d"}[1m30s]) > 0.03`, "500ms"},
		{"classes of characters are no windows", `a{b!~".*[.].*", c=~"[0-9]|1[.]0"} > 0`, "", `a{b!~".*[.].*", c=~"[0-9]|1[.]0"} > 0`, ""},
		{"events are counted as they come", `increase(a[15m]) > 3`, "", `increase(a[15s]) > 3`, ""},
		{
			"probes keep their pace", `sum(increase(tripod_backend_late_probes_total{a="b"}[5m])) > 5`, "5m",
			`sum(60 * increase(tripod_backend_late_probes_total{a="b"}[5s])) > 5`, "5s",
		},
	} {
		t.Run(test.name, func(t *testing.T) {
			groups := []ruleGroup{{Name: "a", Rules: []rule{{Alert: "A", Expr: test.expr, For: test.holds}}}}
			got, err := compress(groups, 60)
			require.NoError(t, err)
			assert.Equal(t, rule{Alert: "A", Expr: test.wantExpr, For: test.wantHolds}, got[0].Rules[0])
			assert.Equal(t, test.expr, groups[0].Rules[0].Expr, "the rules of the chart stay")
		})
	}
	for _, test := range []struct{ name, expr, holds string }{
		{"a subquery", `max_over_time(a[1h:1m]) > 0`, ""},
		{"an offset", `a offset 5m > 0`, ""},
		{"less than a millisecond", `rate(a[10ms]) > 0`, ""},
		{"for is no duration", `a > 0`, "soon"},
	} {
		t.Run(test.name+" is refused", func(t *testing.T) {
			_, err := compress([]ruleGroup{{Rules: []rule{{Alert: "A", Expr: test.expr, For: test.holds}}}}, 60)
			assert.ErrorContains(t, err, "A: ")
		})
	}
	long := []rule{{Alert: "Slow", Expr: "ratio:rate3d > 1 and ratio:rate6h > 1"}, {Alert: "Fast", Expr: "ratio:rate6h > 1"}}
	got, err := compress([]ruleGroup{{Rules: long}}, 60)
	require.NoError(t, err)
	assert.Equal(t, []rule{long[1]}, got[0].Rules, "windows of days are left out")
}

// TestTheChartIsCompressed has promtool check the rules that the command gives to Prometheus, and compares their number with the chart's.
func TestTheChartIsCompressed(t *testing.T) {
	repository, err := framework.RepositoryRoot()
	require.NoError(t, err)
	helm := filepath.Join(repository, "bin/tools/helm")
	if reason := withoutPrometheus(helm); reason != "" && os.Getenv("TEST_PROMTOOL") != "1" {
		t.Skip("rules are not checked: it " + reason + " (TEST_PROMTOOL=1 makes this an error)")
	}
	m, err := renderMonitoring(t.Context(), helm, repository)
	require.NoError(t, err)
	groups, err := compress(m.groups, compression)
	require.NoError(t, err)
	all, windows := 0, 0
	for i, group := range groups {
		all += len(group.Rules)
		for _, r := range group.Rules {
			windows += len(window.FindAllString(r.Expr, -1))
			assert.NotRegexp(t, `\[[0-9]+h\]|\[5m\]`, r.Expr, "%s%s", r.Alert, r.Record)
		}
		assert.Equal(t, m.groups[i].Name, group.Name)
	}
	assert.Greater(t, all, 30, "rules")
	assert.Greater(t, windows, 30, "windows")
	dir := t.TempDir()
	p := &prometheus{dir: dir}
	require.NoError(t, p.write("rules.yaml", map[string]any{"groups": groups}))
	output, err := exec.CommandContext(t.Context(), "promtool", "check", "rules", filepath.Join(dir, "rules.yaml")).CombinedOutput()
	assert.NoError(t, err, string(output))
}
