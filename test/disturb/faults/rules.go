// Copyright The Tripod Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"time"

	"github.com/prometheus/common/model"

	"k8s.io/apimachinery/pkg/util/yaml"
)

// The release whose monitoring the chart renders, and the version of the cluster in which it would run.
const (
	kubeVersion      = "1.36.0"
	releaseName      = "tripod"
	releaseNamespace = "tripod"
)

// monitored has the values for which the chart renders what these clusters have. They run no controllers.
const monitored = `
metrics: {serviceMonitor: {enabled: true}, prometheusRule: {enabled: true}}
controllerManager: {enabled: false}
scheduler: {enabled: false}
`

// monitoring is what the chart renders for Prometheus Operator.
type monitoring struct {
	endpoints []monitoredEndpoint
	groups    []ruleGroup
}

// monitoredEndpoint has the fields of an endpoint of a ServiceMonitor that the chart uses.
type monitoredEndpoint struct {
	Port        string              `json:"port"`
	Scheme      string              `json:"scheme"`
	Path        string              `json:"path"`
	Params      map[string][]string `json:"params"`
	Relabelings []relabeling        `json:"relabelings"`
}

type relabeling struct {
	SourceLabels []string `json:"sourceLabels"`
	TargetLabel  string   `json:"targetLabel"`
	Replacement  string   `json:"replacement"`
}

// ruleGroup is a group of a PrometheusRule, which is also one of Prometheus.
type ruleGroup struct {
	Name  string `json:"name"`
	Rules []rule `json:"rules"`
}

type rule struct {
	Alert       string            `json:"alert,omitempty"`
	Record      string            `json:"record,omitempty"`
	Expr        string            `json:"expr"`
	For         string            `json:"for,omitempty"`
	Labels      map[string]string `json:"labels,omitempty"`
	Annotations map[string]string `json:"annotations,omitempty"`
}

// renderMonitoring has helm render the chart of a repository.
func renderMonitoring(ctx context.Context, helm, repository string) (monitoring, error) {
	var stdout, stderr bytes.Buffer
	chart := filepath.Join(repository, "deploy/helm/tripod")
	cmd := exec.CommandContext(ctx, helm, "template", releaseName, chart, "--namespace="+releaseNamespace, "--kube-version="+kubeVersion, "--values=-")
	cmd.Stdin, cmd.Stdout, cmd.Stderr = strings.NewReader(monitored), &stdout, &stderr
	if err := cmd.Run(); err != nil {
		return monitoring{}, fmt.Errorf("cannot render the chart: %w: %s", err, strings.TrimSpace(stderr.String()))
	}
	return parseMonitoring(&stdout)
}

// parseMonitoring finds the ServiceMonitors and PrometheusRules in YAML documents.
func parseMonitoring(documents io.Reader) (m monitoring, err error) {
	for decoder := yaml.NewYAMLOrJSONDecoder(documents, 4096); ; {
		var object struct {
			Kind string          `json:"kind"`
			Spec json.RawMessage `json:"spec"`
		}
		err := decoder.Decode(&object)
		if errors.Is(err, io.EOF) {
			break
		}
		if err == nil {
			switch object.Kind {
			case "ServiceMonitor":
				var spec struct {
					Endpoints []monitoredEndpoint `json:"endpoints"`
				}
				err = json.Unmarshal(object.Spec, &spec)
				m.endpoints = append(m.endpoints, spec.Endpoints...)
			case "PrometheusRule":
				var spec struct {
					Groups []ruleGroup `json:"groups"`
				}
				err = json.Unmarshal(object.Spec, &spec)
				m.groups = append(m.groups, spec.Groups...)
			}
		}
		if err != nil {
			return m, fmt.Errorf("cannot read what helm has rendered: %w", err)
		}
	}
	if len(m.endpoints) == 0 || len(m.groups) == 0 {
		return m, fmt.Errorf("the chart renders %d endpoints to scrape and %d groups of rules", len(m.endpoints), len(m.groups))
	}
	return m, nil
}

// compress returns the rules for a time that passes faster by a factor. Each `for` and each window is shorter by it. Thresholds stay, except
// for counters of probes.
func compress(groups []ruleGroup, factor int) ([]ruleGroup, error) {
	var compressed []ruleGroup
	for _, group := range groups {
		group.Rules = slices.DeleteFunc(slices.Clone(group.Rules), rule.needsDays)
		for i, r := range group.Rules {
			var err error
			if group.Rules[i], err = r.compress(factor); err != nil {
				return nil, fmt.Errorf("%s%s: %w", r.Alert, r.Record, err)
			}
		}
		compressed = append(compressed, group)
	}
	return compressed, nil
}

// needsDays reports whether an alert compares windows of days. Even compressed, they are longer than a fault.
func (r rule) needsDays() bool {
	return strings.Contains(r.Expr, ":rate1d") || strings.Contains(r.Expr, ":rate3d")
}

var (
	// window matches the window of a range vector. A class of characters in a regular expression, such as [.], is none.
	window = regexp.MustCompile(`\[((?:[0-9]+(?:ms|[smhdwy]))+)\]`)
	// unscaled matches other durations of PromQL, which the chart does not use: a subquery, and an offset.
	unscaled = regexp.MustCompile(`\[[0-9][0-9a-z]*:|\boffset\b`)
	// countedProbes matches the number of late probes in a window. Aggregators probe at a pace of their own, so a shorter window has fewer.
	countedProbes = regexp.MustCompile(`increase\(tripod_backend_late_probes_total\b`)
)

func (r rule) compress(factor int) (rule, error) {
	if unscaled.MatchString(r.Expr) {
		return r, errors.New("the command cannot scale subqueries and offsets")
	}
	var err error
	if r.For != "" {
		if r.For, err = shorter(r.For, factor); err != nil {
			return r, err
		}
	}
	r.Expr = window.ReplaceAllStringFunc(r.Expr, func(match string) string {
		short, wrong := shorter(strings.Trim(match, "[]"), factor)
		err = errors.Join(err, wrong)
		return "[" + short + "]"
	})
	r.Expr = countedProbes.ReplaceAllString(r.Expr, fmt.Sprintf("%d * $0", factor))
	return r, err
}

// shorter divides a duration of Prometheus.
func shorter(duration string, factor int) (string, error) {
	d, err := model.ParseDuration(duration)
	if err != nil {
		return "", err
	}
	short := time.Duration(d) / time.Duration(factor)
	if short < time.Millisecond {
		return "", fmt.Errorf("a factor of %d is too large for %s: Prometheus counts milliseconds", factor, duration)
	}
	return model.Duration(short).String(), nil
}
