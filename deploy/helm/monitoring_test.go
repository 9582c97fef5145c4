// Copyright The Tripod Authors.
// SPDX-License-Identifier: Apache-2.0

package helm

import (
	"encoding/json"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	corev1 "k8s.io/api/core/v1"
	"sigs.k8s.io/yaml"
)

// metricName matches the name of a metric or label.
var metricName = regexp.MustCompile(`\b[a-z][a-z0-9]*(?:_[a-z0-9]+)+\b`)

// knownMetrics returns the metrics of the services and etcd, and names that only look like metrics.
func knownMetrics(t *testing.T) []string {
	t.Helper()
	data, err := os.ReadFile("testdata/metrics.txt")
	require.NoError(t, err)
	return append(strings.Fields(string(data)), "tripod_service", "priority_level", "git_version", "git_commit", "histogram_quantile", "label_replace", "label_values",
		"__rate_interval")
}

// TestOlderKubernetesHasTheMetricsOfTripod compares the lists of metrics: alerts and dashboards are the same with each version of Kubernetes.
func TestOlderKubernetesHasTheMetricsOfTripod(t *testing.T) {
	lists, err := filepath.Glob("../../kube/*/deploy/helm/testdata/metrics.txt")
	require.NoError(t, err)
	ours := func(names []string) (ours []string) {
		for _, name := range names {
			if strings.HasPrefix(name, "tripod_") {
				ours = append(ours, name)
			}
		}
		return ours
	}
	for _, list := range lists {
		data, err := os.ReadFile(list)
		require.NoError(t, err)
		assert.Equal(t, ours(knownMetrics(t)), ours(append(strings.Fields(string(data)), "tripod_service")), list)
	}
}

// checkExpression checks that the metrics of an expression exist, and that it selects one namespace.
func checkExpression(t *testing.T, known []string, where, expression string) {
	t.Helper()
	for _, word := range metricName.FindAllString(expression, -1) {
		name := word
		for _, suffix := range []string{"_bucket", "_count", "_sum"} {
			if !slices.Contains(known, name) {
				name = strings.TrimSuffix(name, suffix)
			}
		}
		assert.Contains(t, known, name, "%s: unknown metric %s", where, word)
	}
	if strings.Count(expression, "{") != strings.Count(expression, "namespace=") {
		t.Errorf("%s: a selector lacks the namespace: %s", where, expression)
	}
}

// findPromtool returns promtool, of Debian's package prometheus. TEST_PROMTOOL=1 demands it.
func findPromtool(t *testing.T) string {
	t.Helper()
	promtool, err := exec.LookPath("promtool")
	if err != nil && os.Getenv("TEST_PROMTOOL") != "1" {
		t.Skipf("expressions are not parsed: %v: apt-get install prometheus (TEST_PROMTOOL=1 makes this an error)", err)
	}
	require.NoError(t, err)
	return promtool
}

// parsed has promtool parse the expressions of alerts and dashboards.
func parsed(t *testing.T, rules []rule) {
	t.Helper()
	promtool := findPromtool(t)
	file := filepath.Join(t.TempDir(), "rules.yaml")
	text, err := yaml.Marshal(map[string]any{"groups": []any{map[string]any{"name": "tripod", "rules": rules}}})
	require.NoError(t, err)
	require.NoError(t, os.WriteFile(file, text, 0o600))
	output, err := exec.CommandContext(t.Context(), promtool, "check", "rules", file).CombinedOutput()
	assert.NoError(t, err, string(output))
}

func TestAlerts(t *testing.T) {
	known := knownMetrics(t)
	r := render(t, merged(t, "metrics: {prometheusRule: {enabled: true}}", withSnapshots, withSearch))
	rules := find(t, r, "PrometheusRule", "tripod", &prometheusRule{}).Spec.Groups[0].Rules
	seen := map[string]bool{}
	for _, rule := range rules {
		assert.False(t, seen[rule.Alert], "%s occurs twice", rule.Alert)
		seen[rule.Alert] = true
		checkExpression(t, known, rule.Alert, rule.Expr)
		assert.Contains(t, []string{"warning", "critical"}, rule.Labels["severity"], "%s has severity", rule.Alert)
		for _, annotation := range []string{"summary", "description"} {
			if text := rule.Annotations[annotation]; text == "" || strings.Contains(text, "$NAMESPACE") || strings.Contains(text, "$FULLNAME") {
				t.Errorf("%s has %s %q", rule.Alert, annotation, text)
			}
		}
	}
	t.Run("promtool", func(t *testing.T) { parsed(t, rules) })
	external := render(t, "metrics: {prometheusRule: {enabled: true}}\netcd: {enabled: false, external: {servers: ['https://one:2379']}}")
	ownView := false
	for _, rule := range find(t, external, "PrometheusRule", "tripod", &prometheusRule{}).Spec.Groups[0].Rules {
		ownView = ownView || rule.Alert == "TripodStorageDown"
		if strings.HasPrefix(rule.Alert, "TripodEtcd") || rule.Alert == "TripodSnapshotMissing" || strings.HasPrefix(rule.Alert, "TripodSearch") {
			t.Errorf("the release has the alert %s, but neither etcd nor search", rule.Alert)
		}
	}
	assert.True(t, ownView, "nothing watches an etcd that is not the chart's")
}

type dashboard struct {
	UID, Title string
	Panels     []struct {
		ID      int
		Type    string
		Title   string
		GridPos struct{ X, Y, W, H int }
		Targets []struct{ RefID, Expr string }
	}
}

func TestDashboards(t *testing.T) {
	known := knownMetrics(t)
	assert.NotRegexp(t, "name: tripod-dashboard-(services|search)\n", render(t, withBoards).text, "without additional services")
	r := render(t, merged(t, wardle, withSearch, withBoards))
	var queries []rule
	for _, name := range []string{"overview", "aggregator", "core", "extensions", "services", "search"} {
		var board dashboard
		config := find(t, r, "ConfigMap", "tripod-dashboard-"+name, &corev1.ConfigMap{})
		require.NoError(t, json.Unmarshal([]byte(config.Data["tripod-"+name+".json"]), &board))
		if board.UID != "tripod-"+name || board.Title == "" || len(board.Panels) < 8 {
			t.Errorf("%s: UID %q, title %q, %d panels", name, board.UID, board.Title, len(board.Panels))
		}
		ids, places := map[int]bool{}, map[[2]int]bool{}
		for _, panel := range board.Panels {
			place := [2]int{panel.GridPos.X, panel.GridPos.Y}
			if ids[panel.ID] || places[place] || panel.GridPos.X+panel.GridPos.W > 24 {
				t.Errorf("%s: panel %q has the id or the place of another panel, or is too wide", name, panel.Title)
			}
			ids[panel.ID], places[place] = true, true
			if panel.Type != "row" && len(panel.Targets) == 0 {
				t.Errorf("%s: panel %q has no query", name, panel.Title)
			}
			for _, target := range panel.Targets {
				checkExpression(t, known, name+"/"+panel.Title, target.Expr)
				queries = append(queries, rule{Alert: name + "/" + panel.Title + "/" + target.RefID, Expr: variables.Replace(target.Expr)})
			}
		}
	}
	t.Run("promtool", func(t *testing.T) { parsed(t, queries) })
}

// variables gives values to the variables of dashboards that are no text.
var variables = strings.NewReplacer("$__rate_interval", "5m", "$__range", "1h", "$__interval", "1m")

func TestBackendsAreScrapedThroughTheAggregator(t *testing.T) {
	r := render(t, merged(t, wardle, withPartitions, "metrics: {serviceMonitor: {enabled: true}}"))
	for _, name := range []string{"core", "extensions", "extensions-shop", "wardle"} {
		endpoint := find(t, r, "ServiceMonitor", "tripod-"+name, &serviceMonitor{}).Spec.Endpoints[0]
		replacements := map[string]string{}
		for _, config := range endpoint.RelabelConfigs {
			replacements[config.TargetLabel] = config.Replacement + strings.Join(config.SourceLabels, "")
		}
		if endpoint.Params["service"][0] != name || replacements["__address__"] != "tripod.control.svc:443" ||
			replacements["__param_replica"] != "__address__" || replacements["tripod_service"] != name {
			t.Errorf("%s has the scrape parameters %v and the replacements %v", name, endpoint.Params, replacements)
		}
		if client := endpoint.TLSConfig.Cert.Secret.Name; !strings.Contains(r.text, "secret: "+client+"\n") {
			t.Errorf("no certificate is issued for %s", client)
		}
	}
}
