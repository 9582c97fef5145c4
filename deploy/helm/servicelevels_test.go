// Copyright The Tripod Authors.
// SPDX-License-Identifier: Apache-2.0

package helm

import (
	"fmt"
	"maps"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// burnAlerts are the alerts of service levels.
var burnAlerts = []string{"TripodReadsBurn", "TripodWritesBurn", "TripodWatchesBurn", "TripodCustomResourcesBurn", "TripodAggregatedAPIsBurn"}

// load is what an aggregator counts in a minute about one kind of request: how many are good, slow and failed.
func load(verb, group string, good, slow, failed string) series {
	labels := fmt.Sprintf(`namespace="control", tripod_service="aggregator", verb=%q, group=%q, scope="resource"`, verb, group)
	return series{
		"apiserver_request_total{" + labels + `, code="200", status="good"}`:          good,
		"apiserver_request_total{" + labels + `, code="200", status="slow"}`:          slow,
		"apiserver_request_total{" + labels + `, code="503", component="aggregator"}`: failed,
		// The aggregator measures no time of what it answers in place of a service.
		"apiserver_request_sli_duration_seconds_count{" + labels + `, status="good"}`:           good,
		"apiserver_request_sli_duration_seconds_count{" + labels + `, status="slow"}`:           slow,
		"apiserver_request_sli_duration_seconds_bucket{" + labels + `, status="good", le="1"}`:  good,
		"apiserver_request_sli_duration_seconds_bucket{" + labels + `, status="slow", le="1"}`:  "0x250",
		"apiserver_request_sli_duration_seconds_bucket{" + labels + `, status="slow", le="30"}`: slow,
	}
}

// wellServed is what clients notice while all is well.
func wellServed() series {
	all := series{
		`tripod_backend_requests_total{namespace="control", tripod_service="aggregator", backend="v1beta1.metrics.k8s.io", code="2xx"}`:  "0+100x250",
		`tripod_backend_requests_total{namespace="control", tripod_service="aggregator", backend="core", code="5xx"}`:                    "0+100x250",
		`apiserver_request_total{namespace="control", tripod_service="core", verb="GET", group="", code="500"}`:                          "0+100x250",
		`apiserver_request_total{namespace="control", tripod_service="aggregator", verb="GET", group="", code="500", subresource="log"}`: "0+100x250",
	}
	for _, kind := range [][2]string{{"GET", ""}, {"LIST", "apps"}, {"PATCH", "apps"}, {"WATCH", "apps"}, {"APPLY", "example.com"}} {
		maps.Copy(all, load(kind[0], kind[1], "0+1000x250", "0x250", "0x250"))
	}
	return all
}

// burnCases are states in which service levels are missed. The others are well.
var burnCases = map[string]struct {
	series series
	at     string
	// alert fires as severities say, with a share of bad requests.
	alert, share string
	severities   []string
}{
	"all is well": {at: "240m"},
	"reads fail": {
		series: load("GET", "", "0+960x250", "0x250", "0+40x250"), at: "60m",
		alert: "TripodReadsBurn", share: "2%", severities: []string{"critical", "warning"},
	},
	"reads are slow": {
		series: load("GET", "", "0+960x250", "0+40x250", "0x250"), at: "60m",
		alert: "TripodReadsBurn", share: "2%", severities: []string{"critical", "warning"},
	},
	"a few writes fail for days": {
		series: load("PATCH", "apps", "0+998x250", "0x250", "0+2x250"), at: "240m",
		alert: "TripodWritesBurn", share: "0.2%", severities: []string{"warning"},
	},
	"writes failed until a while ago": {
		series: load("PATCH", "apps", "0+1000x250", "0x250", "0+100x60 6000x250"), at: "100m",
		alert: "TripodWritesBurn", share: "5.769%", severities: []string{"warning"},
	},
	"watches cannot begin": {
		series: load("WATCH", "apps", "0+900x250", "0x250", "0+100x250"), at: "60m",
		alert: "TripodWatchesBurn", share: "10%", severities: []string{"critical", "warning"},
	},
	"custom resources fail": {
		series: load("APPLY", "example.com", "0+900x250", "0x250", "0+100x250"), at: "60m",
		alert: "TripodCustomResourcesBurn", share: "10%", severities: []string{"critical", "warning"},
	},
	"an additional API service is away": {
		series: series{
			`tripod_backend_requests_total{namespace="control", tripod_service="aggregator", backend="search", code="error"}`:                         "0+100x250",
			`apiserver_request_terminations_total{namespace="control", tripod_service="aggregator", verb="GET", group="clusterpedia.io", code="503"}`: "0+100x250",
		},
		at: "60m",
	},
	"an aggregated API server does not answer": {
		series: series{
			`tripod_backend_requests_total{namespace="control", tripod_service="aggregator", backend="v1beta1.metrics.k8s.io", code="2xx"}`:   "0+80x250",
			`tripod_backend_requests_total{namespace="control", tripod_service="aggregator", backend="v1beta1.metrics.k8s.io", code="error"}`: "0+20x250",
		},
		at: "60m", alert: "TripodAggregatedAPIsBurn", share: "20%", severities: []string{"critical", "warning"},
	},
}

func TestServiceLevels(t *testing.T) {
	known := knownMetrics(t)
	r := render(t, withRules)
	groups := find(t, r, "PrometheusRule", "tripod", &prometheusRule{}).Spec.Groups
	require.Len(t, groups, 2)
	rules := groups[1].Rules
	for _, rule := range rules {
		if strings.HasSuffix(rule.Record, "s:rate5m") {
			checkExpression(t, known, rule.Record, rule.Expr)
		}
	}
	t.Run("promtool", func(t *testing.T) { parsed(t, rules) })
	var tests []any
	for name, c := range burnCases {
		all := wellServed()
		maps.Copy(all, c.series)
		var input []any
		for series, values := range all {
			input = append(input, map[string]string{"series": series, "values": values})
		}
		var expected []any
		for _, alert := range burnAlerts {
			fires := []any{}
			if alert == c.alert {
				for _, severity := range c.severities {
					fires = append(fires, map[string]any{"exp_labels": burnLabels(alert, severity), "exp_annotations": annotationsOf(t, rules, alert, c.share)})
				}
			}
			expected = append(expected, map[string]any{"eval_time": c.at, "alertname": alert, "exp_alerts": fires})
		}
		tests = append(tests, map[string]any{"name": name, "interval": "1m", "input_series": input, "alert_rule_test": expected})
	}
	evaluate(t, rules, tests)
}

func burnLabels(alert, severity string) map[string]string {
	level := strings.TrimSuffix(strings.TrimPrefix(alert, "Tripod"), "Burn")
	return map[string]string{"severity": severity, "namespace": "control", "service_level": strings.ToLower(level[:1]) + level[1:]}
}

// annotationsOf returns the annotations of an alert for a share of bad requests.
func annotationsOf(t *testing.T, rules []rule, alert, share string) map[string]string {
	t.Helper()
	for _, rule := range rules {
		if rule.Alert == alert {
			annotations := maps.Clone(rule.Annotations)
			annotations["description"] = strings.ReplaceAll(annotations["description"], "{{ $value | humanizePercentage }}", share)
			return annotations
		}
	}
	assert.Fail(t, "no alert "+alert)
	return nil
}
