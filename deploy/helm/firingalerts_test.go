// Copyright The Tripod Authors.
// SPDX-License-Identifier: Apache-2.0

package helm

import (
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"sigs.k8s.io/yaml"
)

// series are samples, one a minute, by metric with labels.
type series map[string]string

// alertCase is a state in which one alert fires.
type alertCase struct {
	alert, at string
	series    series
	// labels are those of the alert, besides its severity, and summary is its text.
	labels  map[string]string
	summary string
}

// firingAlerts has the alerts that are not among partitionAlerts. Beside what fires, each has what is well.
var firingAlerts = []alertCase{
	{
		alert: "TripodServiceDown", at: "5m",
		series:  series{`up{namespace="control", tripod_service="aggregator"}`: "0x10", `up{namespace="control", tripod_service="core"}`: "1x10"},
		summary: "No aggregator of Tripod answers.",
	},
	{
		alert: "TripodAggregatorDown", at: "15m",
		series: series{
			`up{namespace="control", tripod_service="aggregator", pod="a"}`: "0x20",
			`up{namespace="control", tripod_service="aggregator", pod="b"}`: "1x20",
			`up{namespace="control", tripod_service="core", pod="c"}`:       "0x20",
		},
		labels:  map[string]string{"pod": "a"},
		summary: "The aggregator a has not answered for ten minutes.",
	},
	{
		alert: "TripodStorageDown", at: "5m",
		series: series{
			`tripod_readiness_failing{namespace="control", tripod_service="core", instance="a:1", check="etcd"}`:           "1x10",
			`tripod_readiness_failing{namespace="control", tripod_service="core", instance="b:1", check="etcd"}`:           "0x10",
			`tripod_readiness_failing{namespace="control", tripod_service="core", instance="b:1", check="etcd-readiness"}`: "1x10",
			`tripod_readiness_failing{namespace="control", tripod_service="extensions", instance="c:1", check="etcd"}`:     "1x10",
			`tripod_readiness_failing{namespace="control", tripod_service="extensions", instance="d:1", check="etcd"}`:     "0x10",
			`tripod_readiness_failing{namespace="control", tripod_service="search", instance="e:1", check="etcd"}`:         "0x10",
			`tripod_readiness_failing{namespace="control", tripod_service="search", instance="e:1", check="database"}`:     "1x10",
		},
		labels:  map[string]string{"backend": "core"},
		summary: "No replica of core reaches its etcd.",
	},
	{
		alert: "TripodReplicaBusy", at: "15m",
		series: series{
			`tripod_backend_late_probes_total{namespace="control", backend="core", endpoint="a:1"}`: "0+2x20",
			`tripod_backend_late_probes_total{namespace="control", backend="core", endpoint="b:1"}`: "0x20",
		},
		labels:  map[string]string{"backend": "core", "endpoint": "a:1"},
		summary: "The replica a:1 of core has more to do than it can.",
	},
	{
		alert: "TripodReplicaEjected", at: "20m",
		series: series{
			`tripod_backend_ejections_total{namespace="control", backend="core", endpoint="a:1", instance="x:1"}`: "0+1x30",
			// Each of several aggregators loses a replica twice that ends: as requests break, and as it refuses connections.
			`tripod_backend_ejections_total{namespace="control", backend="core", endpoint="b:1", instance="x:1"}`: "0x10 2x20",
			`tripod_backend_ejections_total{namespace="control", backend="core", endpoint="b:1", instance="y:1"}`: "0x10 2x20",
			`tripod_backend_ejections_total{namespace="control", backend="core", endpoint="b:1", instance="z:1"}`: "0x10 2x20",
		},
		labels:  map[string]string{"backend": "core", "endpoint": "a:1"},
		summary: "The replica a:1 of core is lost again and again.",
	},
	{
		alert: "TripodRetriesExhausted", at: "15m",
		series: series{
			`tripod_backend_retries_denied_total{namespace="control", backend="core"}`:       "0+60x20",
			`tripod_backend_retries_denied_total{namespace="control", backend="extensions"}`: "9x20",
		},
		labels:  map[string]string{"backend": "core"},
		summary: "Requests to core fail and are not repeated, because too many are.",
	},
	{
		alert: "TripodTokensUnknown", at: "5m",
		series: series{
			`tripod_identity_client_followed{namespace="control", instance="a:1"}`: "0x10",
			`tripod_identity_client_followed{namespace="control", instance="b:1"}`: "1x10",
		},
		labels:  map[string]string{"instance": "a:1"},
		summary: "The aggregator a:1 has no core that it can ask about tokens.",
	},
	{
		alert: "TripodIdentityLags", at: "5m",
		series: series{
			`tripod_identity_client_lag_seconds{namespace="control", instance="a:1"}`: "20x10",
			`tripod_identity_client_lag_seconds{namespace="control", instance="b:1"}`: "1x10",
		},
		labels:  map[string]string{"instance": "a:1"},
		summary: "The aggregator a:1 gets revocations of tokens late.",
	},
	{
		alert: "TripodUpgradeIncomplete", at: "70m",
		series: series{
			`kubernetes_build_info{namespace="control", tripod_service="core", git_version="v1.37.2", git_commit="a"}`:       "1x90",
			`kubernetes_build_info{namespace="control", tripod_service="extensions", git_version="v1.36.3", git_commit="b"}`: "1x90",
			`kubernetes_build_info{namespace="control", tripod_service="etcd", git_version="v3", git_commit="c"}`:            "1x90",
		},
		summary: "2 versions of Tripod have run beside one another for an hour.",
	},
	{
		alert: "TripodUpgradeIncomplete", at: "70m",
		series: series{
			`kubernetes_build_info{namespace="control", tripod_service="core", git_version="v1.37.2", git_commit="a"}`:            "1x90",
			`kubernetes_build_info{namespace="control", tripod_service="search", git_version="v1.37.2", git_commit="a", pod="a"}`: "1x90",
			`kubernetes_build_info{namespace="control", tripod_service="search", git_version="v1.37.2", git_commit="b", pod="b"}`: "1x90",
		},
		summary: "2 versions of Tripod have run beside one another for an hour.",
	},
	{
		alert: "TripodUpgradeIncomplete", at: "70m",
		series: series{
			`kubernetes_build_info{namespace="control", tripod_service="core", git_version="v1.37.2", git_commit="a"}`:               "1x90",
			`kubernetes_build_info{namespace="control", tripod_service="controller-manager", git_version="v1.36.3", git_commit="b"}`: "1x90",
			`kubernetes_build_info{namespace="control", tripod_service="cars", git_version="v1.0.0", git_commit="c"}`:                "1x90",
			`kubernetes_build_info{namespace="control", tripod_service="boats", git_version="v1.0.0", git_commit="d", pod="a"}`:      "1x90",
			`kubernetes_build_info{namespace="control", tripod_service="boats", git_version="v1.1.0", git_commit="e", pod="b"}`:      "1x90",
		},
		labels:  map[string]string{"tripod_service": "boats"},
		summary: "2 versions of boats have run beside one another for an hour.",
	},
	{
		alert: "TripodAPIServiceUnavailable", at: "15m",
		series: series{
			`aggregator_unavailable_apiservice{namespace="control", tripod_service="aggregator", name="v1.example.com"}`: "1x20",
			`aggregator_unavailable_apiservice{namespace="control", tripod_service="aggregator", name="v1.apps"}`:        "0x20",
		},
		labels:  map[string]string{"name": "v1.example.com"},
		summary: "The APIService v1.example.com is not available.",
	},
	{
		alert: "TripodAPIServiceConflict", at: "15m",
		series: series{
			`tripod_apiservice_conflicts{namespace="control", backend="core", claimant="boats"}`: "2x20",
			`tripod_apiservice_conflicts{namespace="control", backend="core", claimant="cars"}`:  "0x20",
		},
		labels:  map[string]string{"backend": "core", "claimant": "boats"},
		summary: "boats claims 2 group-versions of core.",
	},
	{
		alert: "TripodClientCertificateExpires", at: "20m",
		series: series{
			`apiserver_client_certificate_expiration_seconds_count{namespace="control", tripod_service="aggregator", instance="a:1"}`:                 "0+60x30",
			`apiserver_client_certificate_expiration_seconds_bucket{namespace="control", tripod_service="aggregator", instance="a:1", le="43200"}`:    "0+30x30",
			`apiserver_client_certificate_expiration_seconds_bucket{namespace="control", tripod_service="aggregator", instance="a:1", le="+Inf"}`:     "0+60x30",
			`apiserver_client_certificate_expiration_seconds_count{namespace="control", tripod_service="aggregator", instance="b:1"}`:                 "0+60x30",
			`apiserver_client_certificate_expiration_seconds_bucket{namespace="control", tripod_service="aggregator", instance="b:1", le="43200"}`:    "0x30",
			`apiserver_client_certificate_expiration_seconds_bucket{namespace="control", tripod_service="aggregator", instance="b:1", le="31104000"}`: "0+60x30",
			`apiserver_client_certificate_expiration_seconds_bucket{namespace="control", tripod_service="aggregator", instance="b:1", le="+Inf"}`:     "0+60x30",
			`apiserver_client_certificate_expiration_seconds_count{namespace="control", tripod_service="core", instance="c:1"}`:                       "0+60x30",
			`apiserver_client_certificate_expiration_seconds_bucket{namespace="elsewhere", tripod_service="aggregator", instance="d:1", le="43200"}`:  "0+60x30",
			`apiserver_client_certificate_expiration_seconds_bucket{namespace="elsewhere", tripod_service="aggregator", instance="d:1", le="+Inf"}`:   "0+60x30",
			`apiserver_client_certificate_expiration_seconds_count{namespace="elsewhere", tripod_service="aggregator", instance="d:1"}`:               "0+60x30",
		},
		labels:  map[string]string{"tripod_service": "aggregator", "instance": "a:1"},
		summary: "The certificate of a client of Tripod ends within a day.",
	},
	{
		alert: "TripodAuditLost", at: "15m",
		series: series{
			`apiserver_audit_error_total{namespace="control", tripod_service="core", plugin="log"}`:       "0+60x20",
			`apiserver_audit_error_total{namespace="control", tripod_service="extensions", plugin="log"}`: "3x20",
		},
		labels:  map[string]string{"tripod_service": "core"},
		summary: "Audit events of core are lost.",
	},
	{
		alert: "TripodEtcdNoLeader", at: "5m",
		series: series{
			`etcd_server_has_leader{namespace="control", tripod_service="etcd", pod="tripod-etcd-0"}`: "0x10",
			`etcd_server_has_leader{namespace="control", tripod_service="etcd", pod="tripod-etcd-1"}`: "1x10",
		},
		labels:  map[string]string{"tripod_service": "etcd", "pod": "tripod-etcd-0"},
		summary: "The member tripod-etcd-0 of etcd knows no leader.",
	},
	{
		alert: "TripodEtcdLeaderChanges", at: "20m",
		series: series{
			`etcd_server_leader_changes_seen_total{namespace="control", tripod_service="etcd", pod="tripod-etcd-0"}`: "0+1x30",
			`etcd_server_leader_changes_seen_total{namespace="control", tripod_service="etcd", pod="tripod-etcd-1"}`: "1x30",
		},
		labels:  map[string]string{"tripod_service": "etcd", "pod": "tripod-etcd-0"},
		summary: "etcd changes its leader often.",
	},
	{
		alert: "TripodEtcdSlowDisk", at: "20m",
		series: series{
			`etcd_disk_wal_fsync_duration_seconds_bucket{namespace="control", tripod_service="etcd", pod="tripod-etcd-0", le="0.512"}`: "0x30",
			`etcd_disk_wal_fsync_duration_seconds_bucket{namespace="control", tripod_service="etcd", pod="tripod-etcd-0", le="1"}`:     "0+60x30",
			`etcd_disk_wal_fsync_duration_seconds_bucket{namespace="control", tripod_service="etcd", pod="tripod-etcd-0", le="+Inf"}`:  "0+60x30",
			`etcd_disk_wal_fsync_duration_seconds_bucket{namespace="control", tripod_service="etcd", pod="tripod-etcd-1", le="0.001"}`: "0+60x30",
			`etcd_disk_wal_fsync_duration_seconds_bucket{namespace="control", tripod_service="etcd", pod="tripod-etcd-1", le="+Inf"}`:  "0+60x30",
		},
		labels:  map[string]string{"tripod_service": "etcd", "pod": "tripod-etcd-0"},
		summary: "The disk of tripod-etcd-0 takes 995.1ms for a write.",
	},
	{
		alert: "TripodControllerManagerDown", at: "10m",
		series:  series{`up{namespace="control", tripod_service="controller-manager"}`: "0x20", `up{namespace="control", tripod_service="scheduler"}`: "1x20"},
		summary: "No kube-controller-manager of Tripod runs.",
	},
	{
		alert: "TripodSchedulerDown", at: "10m",
		series:  series{`up{namespace="control", tripod_service="scheduler"}`: "0x20", `up{namespace="control", tripod_service="controller-manager"}`: "1x20"},
		summary: "No kube-scheduler of Tripod runs.",
	},
	{
		alert: "TripodSearchClusterStale", at: "10m",
		series: series{
			`tripod_search_cluster_staleness_seconds{namespace="control", tripod_service="search", cluster="east"}`: "600x20",
			`tripod_search_cluster_staleness_seconds{namespace="control", tripod_service="search", cluster="west"}`: "1x20",
			`tripod_search_cluster_staleness_seconds{namespace="control", tripod_service="search", cluster="new"}`:  strings.Repeat("Inf ", 20),
		},
		labels:  map[string]string{"cluster": "east"},
		summary: "The copy of the cluster east is 10m 0s old.",
	},
	{
		alert: "TripodSearchClusterIncomplete", at: "40m",
		series: series{
			`tripod_search_cluster_resources{namespace="control", tripod_service="search", cluster="east", state="incomplete"}`: "1x50",
			`tripod_search_cluster_resources{namespace="control", tripod_service="search", cluster="west", state="incomplete"}`: "0x50",
			`tripod_search_cluster_resources{namespace="control", tripod_service="search", cluster="west", state="complete"}`:   "9x50",
		},
		labels:  map[string]string{"cluster": "east"},
		summary: "The first list of a resource of the cluster east is not complete after half an hour.",
	},
	{
		alert: "TripodSearchSlow", at: "20m",
		series: series{
			`tripod_search_database_duration_seconds_bucket{namespace="control", tripod_service="search", operation="read", le="5"}`:     "0x30",
			`tripod_search_database_duration_seconds_bucket{namespace="control", tripod_service="search", operation="read", le="10"}`:    "0+60x30",
			`tripod_search_database_duration_seconds_bucket{namespace="control", tripod_service="search", operation="read", le="+Inf"}`:  "0+60x30",
			`tripod_search_database_duration_seconds_bucket{namespace="control", tripod_service="search", operation="write", le="0.1"}`:  "0+900x30",
			`tripod_search_database_duration_seconds_bucket{namespace="control", tripod_service="search", operation="write", le="+Inf"}`: "0+900x30",
		},
		summary: "The database of search takes more than 5 seconds for one search of a hundred.",
	},
	{
		alert: "TripodSearchSavedExceeded", at: "1m",
		series: series{
			`tripod_search_saved_exceeded{namespace="control", tripod_service="search", name="failed", pod="a"}`: "1x10",
			`tripod_search_saved_exceeded{namespace="control", tripod_service="search", name="failed", pod="b"}`: "1x10",
			`tripod_search_saved_exceeded{namespace="control", tripod_service="search", name="quiet", pod="a"}`:  "0x10",
			`tripod_search_saved_exceeded{namespace="other", tripod_service="search", name="others", pod="c"}`:   "1x10",
		},
		labels:  map[string]string{"name": "failed"},
		summary: "The SavedSearch failed has had more matches than its threshold for as long as that says.",
	},
	{
		alert: "TripodSearchSavedFails", at: "16m",
		series: series{
			`tripod_search_saved_failing{namespace="control", tripod_service="search", name="forbidden"}`: "1x20",
			`tripod_search_saved_failing{namespace="control", tripod_service="search", name="counted"}`:   "0x20",
			`tripod_search_saved_failing{namespace="control", tripod_service="search", name="again"}`:     "1x10 0x10",
		},
		labels:  map[string]string{"name": "forbidden"},
		summary: "The matches of the SavedSearch forbidden have not been counted for 15 minutes.",
	},
	{
		alert: "TripodSnapshotMissing", at: "3000m",
		series: series{
			`kube_cronjob_status_last_successful_time{namespace="control", cronjob="tripod-etcd-snapshot"}`:     "0x3100",
			`kube_cronjob_status_last_successful_time{namespace="control", cronjob="tripod-etcd-big-snapshot"}`: "150000x3100",
			`kube_cronjob_status_last_successful_time{namespace="control", cronjob="other"}`:                    "0x3100",
		},
		labels:  map[string]string{"cronjob": "tripod-etcd-snapshot"},
		summary: "tripod-etcd-snapshot has saved no snapshot for two days.",
	},
}

// TestAlertsFire has promtool evaluate the other alerts. Each alert of the chart is in one of the two tests.
func TestAlertsFire(t *testing.T) {
	r := render(t, merged(t, withRules, withSnapshots, withSearch, "controllerManager: {enabled: true}\nscheduler: {enabled: true}"))
	rules := find(t, r, "PrometheusRule", "tripod", &prometheusRule{}).Spec.Groups[0].Rules
	tried := slices.Concat(firingAlerts, partitionAlerts)
	for _, rule := range rules {
		assert.True(t, slices.ContainsFunc(tried, func(c alertCase) bool { return c.alert == rule.Alert }), "%s has never fired", rule.Alert)
	}
	fire(t, rules, firingAlerts)
}

// fire has promtool evaluate rules. In each case, its alert fires once.
func fire(t *testing.T, rules []rule, cases []alertCase) {
	t.Helper()
	var tests []any
	for _, test := range cases {
		expected := firing(t, rules, test.alert, test.labels)
		expected["exp_annotations"].(map[string]string)["summary"] = test.summary
		tests = append(tests, map[string]any{
			"interval": "1m", "input_series": test.series.input(),
			"alert_rule_test": []any{map[string]any{"eval_time": test.at, "alertname": test.alert, "exp_alerts": []any{expected}}},
		})
	}
	evaluate(t, rules, tests)
}

// input returns the series as promtool reads them.
func (s series) input() (input []any) {
	for name, values := range s {
		input = append(input, map[string]string{"series": name, "values": values})
	}
	return input
}

// firing returns what promtool is to expect of an alert that fires with labels. The value of its expression is in no text.
func firing(t *testing.T, rules []rule, alert string, with map[string]string) map[string]any {
	t.Helper()
	i := slices.IndexFunc(rules, func(r rule) bool { return r.Alert == alert })
	require.GreaterOrEqual(t, i, 0, alert)
	labels := map[string]string{"severity": rules[i].Labels["severity"], "namespace": "control"}
	annotations := maps.Clone(rules[i].Annotations)
	for name, value := range with {
		labels[name] = value
		for text := range annotations {
			annotations[text] = strings.ReplaceAll(annotations[text], "{{ $labels."+name+" }}", value)
		}
	}
	return map[string]any{"exp_labels": labels, "exp_annotations": annotations}
}

// evaluate has promtool run its tests of rules.
func evaluate(t *testing.T, rules []rule, tests []any) {
	t.Helper()
	promtool, dir := findPromtool(t), t.TempDir()
	write := func(name string, content any) string {
		text, err := yaml.Marshal(content)
		require.NoError(t, err)
		file := filepath.Join(dir, name)
		require.NoError(t, os.WriteFile(file, text, 0o600))
		return file
	}
	write("rules.yaml", map[string]any{"groups": []any{map[string]any{"name": "tripod", "rules": rules}}})
	file := write("tests.yaml", map[string]any{"rule_files": []string{"rules.yaml"}, "evaluation_interval": "1m", "tests": tests})
	output, err := exec.CommandContext(t.Context(), promtool, "test", "rules", file).CombinedOutput()
	require.NoError(t, err, string(output))
}
