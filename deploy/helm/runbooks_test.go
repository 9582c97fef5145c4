// Copyright The Tripod Authors.
// SPDX-License-Identifier: Apache-2.0

package helm

import (
	"os"
	"regexp"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// runbookPage is the page with a section for each alert.
const runbookPage = "../../docs/runbooks.md"

// allAlerts returns the rules of a release with everything that an alert can be about, without recordings.
func allAlerts(t *testing.T) []rule {
	t.Helper()
	r := render(t, merged(t, withRules, withSnapshots, withSearch, "controllerManager: {enabled: true}\nscheduler: {enabled: true}"))
	var alerts []rule
	for _, group := range find(t, r, "PrometheusRule", "tripod", &prometheusRule{}).Spec.Groups {
		for _, rule := range group.Rules {
			if rule.Alert != "" {
				alerts = append(alerts, rule)
			}
		}
	}
	return alerts
}

// TestRunbooks checks that each alert has a section, and each section an alert, and that the former's URL leads to the latter.
func TestRunbooks(t *testing.T) {
	page, err := os.ReadFile(runbookPage)
	require.NoError(t, err)
	sections := map[string]string{}
	for _, section := range strings.Split(string(page), "\n## ")[1:] {
		name, text, _ := strings.Cut(section, "\n")
		sections[name] = text
	}
	rendered := map[string]bool{}
	for _, alert := range allAlerts(t) {
		rendered[alert.Alert] = true
		assert.Equal(t, "https://github.com/tripod-k8s/tripod/blob/main/docs/runbooks.md#"+strings.ToLower(alert.Alert), alert.Annotations["runbook_url"])
	}
	written, err := os.ReadFile(chart + "/monitoring/alerts.yaml")
	require.NoError(t, err)
	for _, match := range regexp.MustCompile(`(?m)^- alert: (\w+)$`).FindAllStringSubmatch(string(written), -1) {
		assert.True(t, rendered[match[1]], "%s is not among the alerts of this test: give it the values that %s needs", t.Name(), match[1])
	}
	for alert := range rendered {
		section, ok := sections[alert]
		if !assert.True(t, ok, "%s has no section in %s", alert, runbookPage) {
			continue
		}
		for _, part := range []string{"**Impact.**", "**Cause.**", "\n    ", "**Fix.**", "**Tried.**"} {
			assert.Contains(t, section, part, "the section of %s lacks a part", alert)
		}
	}
	for section := range sections {
		assert.True(t, rendered[section], "the section %s is of no alert", section)
	}
	none := render(t, merged(t, withRules, "metrics: {prometheusRule: {runbookURL: ''}}"))
	assert.NotContains(t, none.text, "runbook_url")
}
