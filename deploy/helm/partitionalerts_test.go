// Copyright The Tripod Authors.
// SPDX-License-Identifier: Apache-2.0

package helm

import (
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"sigs.k8s.io/yaml"
)

// series are samples, one a minute, by metric with labels.
type series map[string]string

// partitionAlerts are what goes wrong in the partition big, or in its etcd. The default partition is well.
var partitionAlerts = []struct {
	alert, at string
	series    series
	// labels are those of the alert, besides its severity, and summary is what it says.
	labels  map[string]string
	summary string
}{
	{
		alert: "TripodBackendDown", at: "5m",
		series: series{
			`tripod_backend_endpoints{namespace="control", backend="extensions-big", state="serving"}`: "0x10",
			`tripod_backend_endpoints{namespace="control", backend="extensions", state="serving"}`:     "1x10",
		},
		labels: map[string]string{"backend": "extensions-big"}, summary: "No replica of extensions-big serves.",
	},
	{
		alert: "TripodReplicaDown", at: "15m",
		series: series{
			`tripod_backend_endpoints{namespace="control", backend="extensions-big", state="frozen", instance="a:1"}`: "1x20",
			`tripod_backend_endpoints{namespace="control", backend="extensions", state="serving", instance="a:1"}`:    "1x20",
		},
		labels:  map[string]string{"backend": "extensions-big", "instance": "a:1"},
		summary: "A replica of extensions-big is not used for ten minutes.",
	},
	{
		// Its etcd is away or full.
		alert: "TripodErrors", at: "15m",
		series: series{
			`apiserver_request_total{namespace="control", tripod_service="extensions-big", code="503"}`: "0+60x20",
			`apiserver_request_total{namespace="control", tripod_service="extensions-big", code="200"}`: "0+60x20",
			`apiserver_request_total{namespace="control", tripod_service="extensions", code="200"}`:     "0+60x20",
		},
		labels: map[string]string{"tripod_service": "extensions-big"}, summary: "extensions-big answers 50% of its requests with a server error.",
	},
	{
		alert: "TripodSlow", at: "20m",
		series: series{
			`apiserver_request_sli_duration_seconds_bucket{namespace="control", tripod_service="extensions-big", verb="GET", le="1"}`:    "0+0x30",
			`apiserver_request_sli_duration_seconds_bucket{namespace="control", tripod_service="extensions-big", verb="GET", le="+Inf"}`: "0+60x30",
			`apiserver_request_sli_duration_seconds_bucket{namespace="control", tripod_service="extensions-big", verb="GET", le="2"}`:    "0+60x30",
			`apiserver_request_sli_duration_seconds_bucket{namespace="control", tripod_service="extensions", verb="GET", le="1"}`:        "0+60x30",
			`apiserver_request_sli_duration_seconds_bucket{namespace="control", tripod_service="extensions", verb="GET", le="+Inf"}`:     "0+60x30",
		},
		labels:  map[string]string{"tripod_service": "extensions-big"},
		summary: "A hundredth of the requests to extensions-big takes longer than a second.",
	},
	{
		alert: "TripodRequestsQueue", at: "15m",
		series: series{
			`apiserver_flowcontrol_current_inqueue_requests{namespace="control", tripod_service="extensions-big", priority_level="catch-all"}`: "20x20",
			`apiserver_flowcontrol_current_inqueue_requests{namespace="control", tripod_service="extensions", priority_level="catch-all"}`:     "0x20",
		},
		labels:  map[string]string{"tripod_service": "extensions-big", "priority_level": "catch-all"},
		summary: "Requests of level catch-all wait in extensions-big.",
	},
	{
		alert: "TripodMemory", at: "20m",
		series: series{
			`process_resident_memory_bytes{namespace="control", tripod_service="extensions-big", instance="a:1"}`: "99x30",
			`go_gc_gomemlimit_bytes{namespace="control", tripod_service="extensions-big", instance="a:1"}`:        "100x30",
			`process_resident_memory_bytes{namespace="control", tripod_service="extensions", instance="b:1"}`:     "50x30",
			`go_gc_gomemlimit_bytes{namespace="control", tripod_service="extensions", instance="b:1"}`:            "100x30",
		},
		labels:  map[string]string{"namespace": "control", "tripod_service": "extensions-big", "instance": "a:1"},
		summary: "extensions-big at a:1 is near its memory limit.",
	},
	{
		alert: "TripodEtcdMemberDown", at: "5m",
		series: series{
			`up{namespace="control", tripod_service="etcd-extensions-big", pod="tripod-etcd-extensions-big-0"}`: "0x10",
			`up{namespace="control", tripod_service="etcd", pod="tripod-etcd-0"}`:                               "1x10",
		},
		labels:  map[string]string{"namespace": "control", "tripod_service": "etcd-extensions-big", "pod": "tripod-etcd-extensions-big-0"},
		summary: "The member tripod-etcd-extensions-big-0 of etcd-extensions-big does not answer.",
	},
	{
		alert: "TripodEtcdFull", at: "15m",
		series: series{
			`etcd_mvcc_db_total_size_in_bytes{namespace="control", tripod_service="etcd-extensions-big", pod="tripod-etcd-extensions-big-0"}`: "90x20",
			`etcd_server_quota_backend_bytes{namespace="control", tripod_service="etcd-extensions-big", pod="tripod-etcd-extensions-big-0"}`:  "100x20",
			`etcd_mvcc_db_total_size_in_bytes{namespace="control", tripod_service="etcd", pod="tripod-etcd-0"}`:                               "10x20",
			`etcd_server_quota_backend_bytes{namespace="control", tripod_service="etcd", pod="tripod-etcd-0"}`:                                "100x20",
		},
		labels:  map[string]string{"namespace": "control", "tripod_service": "etcd-extensions-big", "pod": "tripod-etcd-extensions-big-0"},
		summary: "The database of tripod-etcd-extensions-big-0 has 90% of its quota.",
	},
	{
		alert: "TripodConfigurationDiffers", at: "40m",
		series: series{
			`tripod_configuration_differences{namespace="control", kind="partitions", between="services"}`: "1x50",
			`tripod_configuration_differences{namespace="control", kind="audit", between="services"}`:      "1x50",
		},
		labels:  map[string]string{"kind": "partitions", "between": "services"},
		summary: "The partitions of Tripod differs between services.",
	},
}

// TestAlertsNameThePartition has promtool evaluate the alerts.
func TestAlertsNameThePartition(t *testing.T) {
	promtool := findPromtool(t)
	r := render(t, merged(t, withPartitions, withRules, withSnapshots))
	rules := find(t, r, "PrometheusRule", "tripod", &prometheusRule{}).Spec.Groups[0].Rules
	dir := t.TempDir()
	write := func(name string, content any) string {
		text, err := yaml.Marshal(content)
		require.NoError(t, err)
		file := filepath.Join(dir, name)
		require.NoError(t, os.WriteFile(file, text, 0o600))
		return file
	}
	write("rules.yaml", map[string]any{"groups": []any{map[string]any{"name": "tripod", "rules": rules}}})
	var tests []any
	for _, test := range partitionAlerts {
		i := slices.IndexFunc(rules, func(r rule) bool { return r.Alert == test.alert })
		require.GreaterOrEqual(t, i, 0, test.alert)
		labels := map[string]string{"severity": rules[i].Labels["severity"]}
		description := rules[i].Annotations["description"]
		for name, value := range test.labels {
			labels[name] = value
			description = strings.ReplaceAll(description, "{{ $labels."+name+" }}", value)
		}
		var input []any
		for name, values := range test.series {
			input = append(input, map[string]string{"series": name, "values": values})
		}
		tests = append(tests, map[string]any{
			"interval": "1m", "input_series": input,
			"alert_rule_test": []any{map[string]any{
				"eval_time": test.at, "alertname": test.alert,
				"exp_alerts": []any{map[string]any{
					"exp_labels": labels, "exp_annotations": map[string]string{"summary": test.summary, "description": description},
				}},
			}},
		})
	}
	file := write("tests.yaml", map[string]any{"rule_files": []string{"rules.yaml"}, "evaluation_interval": "1m", "tests": tests})
	said, err := exec.CommandContext(t.Context(), promtool, "test", "rules", file).CombinedOutput()
	require.NoError(t, err, string(said))
}
