// Copyright The Tripod Authors.
// SPDX-License-Identifier: Apache-2.0

package helm

import "testing"

// partitionAlerts are what goes wrong in the partition big, or in its etcd. The default partition is well.
var partitionAlerts = []alertCase{
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
		labels:  map[string]string{"tripod_service": "extensions-big", "instance": "a:1"},
		summary: "extensions-big at a:1 is near its memory limit.",
	},
	{
		alert: "TripodEtcdMemberDown", at: "5m",
		series: series{
			`up{namespace="control", tripod_service="etcd-extensions-big", pod="tripod-etcd-extensions-big-0"}`: "0x10",
			`up{namespace="control", tripod_service="etcd", pod="tripod-etcd-0"}`:                               "1x10",
		},
		labels:  map[string]string{"tripod_service": "etcd-extensions-big", "pod": "tripod-etcd-extensions-big-0"},
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
		labels:  map[string]string{"tripod_service": "etcd-extensions-big", "pod": "tripod-etcd-extensions-big-0"},
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
	r := render(t, merged(t, withPartitions, withRules, withSnapshots))
	fire(t, find(t, r, "PrometheusRule", "tripod", &prometheusRule{}).Spec.Groups[0].Rules, partitionAlerts)
}
