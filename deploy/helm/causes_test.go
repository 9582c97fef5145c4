// Copyright The Tripod Authors.
// SPDX-License-Identifier: Apache-2.0

package helm

import (
	"maps"
	"slices"
	"strings"
	"testing"
)

// followed are the alerts that have a cause with an alert of its own, and these.
var followed = []string{
	"TripodStorageDown", "TripodBackendDown", "TripodReplicaBusy", "TripodReplicaDown", "TripodReplicaEjected", "TripodTokensUnknown",
	"TripodIdentityLags",
}

// servingTwo is a release whose services are well: two aggregators, a:1 and b:1, and two replicas of core, c:1 and d:1, and of extensions.
func servingTwo() series {
	s := series{}
	for _, aggregator := range []string{"a:1", "b:1"} {
		s.of(aggregator, "core", "2x30", "0x30")
		s.of(aggregator, "extensions", "2x30", "0x30")
		s.identity(aggregator, "1x30", "1x30")
	}
	for _, replica := range []string{"c:1", "d:1"} {
		s.etcd("core", replica, "0x30")
		s.etcd("extensions", replica, "0x30")
	}
	return s
}

// of sets how many replicas of a backend serve for an aggregator, and how many are not ready.
func (s series) of(aggregator, backend, serving, unready string) {
	labels := `{namespace="control", backend="` + backend + `", instance="` + aggregator + `", state=`
	s["tripod_backend_endpoints"+labels+`"serving"}`] = serving
	s["tripod_backend_endpoints"+labels+`"unready"}`] = unready
}

// identity sets whether an aggregator follows a core, and how far it lags.
func (s series) identity(aggregator, followed, lag string) {
	s[`tripod_identity_client_followed{namespace="control", instance="`+aggregator+`"}`] = followed
	s[`tripod_identity_client_lag_seconds{namespace="control", instance="`+aggregator+`"}`] = lag
}

// etcd sets whether the check of etcd fails in a replica.
func (s series) etcd(service, replica, failing string) {
	s[`tripod_readiness_failing{namespace="control", tripod_service="`+service+`", instance="`+replica+`", check="etcd"}`] = failing
}

// lost sets how often an aggregator has lost a replica, and how often it was late.
func (s series) lost(aggregator, backend, replica, ejections, late string) {
	labels := `{namespace="control", backend="` + backend + `", endpoint="` + replica + `", instance="` + aggregator + `"`
	s["tripod_backend_ejections_total"+labels+`, reason="refusing"}`] = ejections
	s["tripod_backend_late_probes_total"+labels+"}"] = late
}

// causeCases are states of a release, after a quarter of an hour.
var causeCases = map[string]struct {
	change func(series)
	// fires has the labels of each alert that fires.
	fires map[string]map[string]string
}{
	"all is well": {change: func(series) {}},
	"all of core is away": {
		change: func(s series) {
			for _, aggregator := range []string{"a:1", "b:1"} {
				s.of(aggregator, "core", "0x30", "2x30")
				s.identity(aggregator, "0x30", "0+60x30")
				s.lost(aggregator, "core", "c:1", "0+1x30", "0x30")
			}
			// Without a process, nothing is measured.
			maps.DeleteFunc(s, func(name, _ string) bool { return strings.Contains(name, `tripod_service="core"`) })
		},
		fires: map[string]map[string]string{"TripodBackendDown": {"backend": "core"}},
	},
	"the etcd of core is away": {
		change: func(s series) {
			for _, aggregator := range []string{"a:1", "b:1"} {
				s.of(aggregator, "core", "2x8 0x22", "0x8 2x22") // for some time, probes are late
				s.identity(aggregator, "0x30", "0+60x30")
				s.lost(aggregator, "core", "c:1", "0+1x30", "0+10x30")
			}
			s.etcd("core", "c:1", "1x30")
			s.etcd("core", "d:1", "1x30")
		},
		fires: map[string]map[string]string{"TripodStorageDown": {"backend": "core"}},
	},
	"one replica does not reach etcd, and Prometheus does not reach the other": {
		change: func(s series) {
			s.of("a:1", "core", "1x30", "1x30")
			maps.DeleteFunc(s, func(name, _ string) bool { return strings.Contains(name, `instance="d:1"`) })
			s.etcd("core", "c:1", "1x30")
		},
		fires: map[string]map[string]string{"TripodReplicaDown": {"backend": "core", "instance": "a:1"}},
	},
	"the etcd of core is away, and Prometheus reaches one replica and no aggregator": {
		change: func(s series) {
			maps.DeleteFunc(s, func(name, _ string) bool { return !strings.Contains(name, `instance="c:1"`) })
			s.etcd("core", "c:1", "1x30")
		},
		fires: map[string]map[string]string{"TripodStorageDown": {"backend": "core"}},
	},
	"one of two replicas does not reach etcd": {
		change: func(s series) {
			s.of("a:1", "core", "1x30", "1x30")
			s.lost("a:1", "core", "c:1", "0+1x30", "0+10x30")
			s.etcd("core", "c:1", "1x30")
		},
		fires: map[string]map[string]string{
			"TripodReplicaDown":    {"backend": "core", "instance": "a:1"},
			"TripodReplicaBusy":    {"backend": "core", "endpoint": "c:1"},
			"TripodReplicaEjected": {"backend": "core", "endpoint": "c:1"},
		},
	},
	"one aggregator reaches no core, and extensions is away": {
		change: func(s series) {
			s.of("a:1", "core", "0x30", "2x30")
			s.identity("a:1", "0x30", "0+60x30")
			s.of("a:1", "extensions", "0x30", "2x30")
			s.of("b:1", "extensions", "0x30", "2x30")
		},
		fires: map[string]map[string]string{
			"TripodBackendDown":   {"backend": "extensions"},
			"TripodReplicaDown":   {"backend": "core", "instance": "a:1"},
			"TripodTokensUnknown": {"instance": "a:1"},
		},
	},
	"messages of core are late": {
		change: func(s series) { s.identity("a:1", "1x30", "20x30") },
		fires:  map[string]map[string]string{"TripodIdentityLags": {"instance": "a:1"}},
	},
}

// TestCausesFireAlone has promtool evaluate what follows from an outage. An alert whose cause has an alert does not fire beside it.
func TestCausesFireAlone(t *testing.T) {
	rules := find(t, render(t, withRules), "PrometheusRule", "tripod", &prometheusRule{}).Spec.Groups[0].Rules
	var tests []any
	for _, name := range slices.Sorted(maps.Keys(causeCases)) {
		c, state := causeCases[name], servingTwo()
		c.change(state)
		var expected []any
		for _, alert := range followed {
			fires := []any{}
			if labels, ok := c.fires[alert]; ok {
				fires = append(fires, firing(t, rules, alert, labels))
			}
			expected = append(expected, map[string]any{"eval_time": "15m", "alertname": alert, "exp_alerts": fires})
		}
		tests = append(tests, map[string]any{"name": name, "interval": "1m", "input_series": state.input(), "alert_rule_test": expected})
	}
	evaluate(t, rules, tests)
}
