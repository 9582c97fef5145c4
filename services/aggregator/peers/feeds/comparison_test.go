// Copyright The Tripod Authors.
// SPDX-License-Identifier: Apache-2.0

package feeds

import (
	"fmt"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"k8s.io/component-base/metrics/testutil"

	backendv1 "github.com/tripod-k8s/tripod/proto/backend/v1"
)

func configured(encryption map[string]string, audit string, admission map[string]string) *backendv1.Configuration {
	return &backendv1.Configuration{Encryption: encryption, Audit: audit, Admission: admission}
}

func TestConfigurationsAreCompared(t *testing.T) {
	builtin := func(group string) bool { return group == "apps" || group == "apiextensions.k8s.io" }
	in := func(resources ...string) map[string]string {
		encryption := map[string]string{}
		for _, resource := range resources {
			encryption[resource] = "aescbc:key#1a2b3c4d,identity"
		}
		return encryption
	}
	type replicas map[string]*backendv1.Configuration
	for _, tc := range []struct {
		name     string
		own      *backendv1.Configuration
		received map[string]replicas
		want     string
		counts   map[[2]string]int
		unknown  float64
	}{
		{name: "no reports"},
		{
			name:     "encryption of what core stores, only in core",
			received: map[string]replicas{"core": {"a": configured(in("secrets", "*.", "*.apps"), "", nil)}, "extensions": {"b": configured(nil, "", nil)}},
		},
		{
			name:     "encryption of custom resources, only in core",
			received: map[string]replicas{"core": {"a": configured(in("secrets", "boats.example.com"), "", nil)}, "extensions": {"b": configured(nil, "", nil)}},
			want:     "encryption of boats.example.com is aescbc:key,identity at core at a and not configured at extensions at b", counts: map[[2]string]int{{"encryption", "services"}: 1},
		},
		{
			name: "encryption of everything and of CustomResourceDefinitions, only in core",
			received: map[string]replicas{
				"core": {"a": configured(in("*.*", "customresourcedefinitions.apiextensions.k8s.io"), "", nil)}, "extensions": {"b": configured(nil, "", nil)},
			},
			want: "encryption of *.*", counts: map[[2]string]int{{"encryption", "services"}: 2},
		},
		{
			name:     "a replica that writes in clear",
			received: map[string]replicas{"core": {"a": configured(in("secrets"), "", nil), "c": configured(nil, "", nil), "d": configured(in("secrets"), "", nil)}},
			want:     "encryption of secrets is aescbc:key,identity at core at a and not configured at core at c", counts: map[[2]string]int{{"encryption", "replicas"}: 1},
		},
		{
			name: "audit of one service", own: configured(nil, "off", nil),
			received: map[string]replicas{"core": {"a": configured(nil, "1a2b3c4d to log", nil)}, "extensions": {"b": configured(nil, "off", nil)}},
			want:     "audit is off at this aggregator and 1a2b3c4d to log at core at a", counts: map[[2]string]int{{"audit", "services"}: 2},
		},
		{
			name: "plugins that only one has", own: configured(nil, "", map[string]string{"A": "on"}),
			received: map[string]replicas{"core": {"a": configured(nil, "", map[string]string{"A": "on", "B": "on"})}},
		},
		{
			name: "a plugin", own: configured(nil, "", map[string]string{"A": "off"}),
			received: map[string]replicas{"core": {"a": configured(nil, "", map[string]string{"A": "on\nit\x00says"})}},
			want:     "admission plugin A is off at this aggregator and on?it?says at core at a", counts: map[[2]string]int{{"admission", "services"}: 1},
		},
		{
			name: "a replica with other partitions", own: divided("big=example.com"),
			received: map[string]replicas{"core": {"a": configured(nil, "", nil)}, "extensions": {"b": divided("big=example.com"), "c": divided("")}},
			want:     "the list of partitions is big=example.com at extensions at b and empty at extensions at c",
			counts:   map[[2]string]int{{"partitions", "replicas"}: 1},
		},
		{
			name: "an older replica", own: configured(nil, "off", nil), received: map[string]replicas{"core": {"a": nil, "c": configured(nil, "off", nil)}},
			want: "unknown is the configuration of core at a", unknown: 1,
		},
	} {
		t.Run(tc.name, func(t *testing.T) {
			own := tc.own
			if own == nil {
				own = configured(in("*.*"), "", nil)
			}
			c := NewComparison(own, builtin)
			for backend, replicas := range tc.received {
				for address, received := range replicas {
					c.set(backend, address, received)
				}
			}
			err := c.Agree()
			if tc.want == "" {
				require.NoError(t, err)
			} else {
				require.ErrorContains(t, err, tc.want)
			}
			for _, kind := range []string{"encryption", "audit", "admission", "partitions"} {
				for _, between := range []string{betweenReplicas, betweenServices} {
					got, err := testutil.GetGaugeMetricValue(differences.WithLabelValues(kind, between))
					require.NoError(t, err)
					assert.InDelta(t, tc.counts[[2]string{kind, between}], got, 0, "%s between %s", kind, between)
				}
			}
			got, err := testutil.GetGaugeMetricValue(unknown)
			require.NoError(t, err)
			assert.InDelta(t, tc.unknown, got, 0, "replicas that do not report")

			for backend, replicas := range tc.received {
				for address := range replicas {
					c.forget(backend, address)
				}
			}
			require.NoError(t, c.Agree(), "without replicas")
		})
	}
}

func TestManyDifferencesAreNotAllReported(t *testing.T) {
	plugins := func(value string) map[string]string {
		all := map[string]string{}
		for i := range 1000 {
			all[fmt.Sprintf("P%03d", i)] = value
		}
		return all
	}
	c := NewComparison(configured(nil, "", plugins("on")), func(string) bool { return false })
	c.set("core", "a", configured(nil, "", plugins("off")))
	err := c.Agree()
	require.ErrorContains(t, err, "and 980 more")
	assert.Equal(t, maxListed, strings.Count(err.Error(), "admission plugin"))
}

// divided is the configuration of a replica that knows partitions.
func divided(table string) *backendv1.Configuration {
	return &backendv1.Configuration{Partitions: &table}
}
