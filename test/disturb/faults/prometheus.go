// Copyright The Tripod Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"sigs.k8s.io/yaml"

	"github.com/tripod-k8s/tripod/test/framework"
)

const (
	// compression is how much faster time passes for the rules: two seconds stand for a minute.
	compression = 30
	// scrapes is how often Prometheus scrapes by default. The chart does twice as often, but a scrape must end before the next one, and takes
	// more than a second if etcd is away.
	scrapes = "1m"
	// evaluates is how often Prometheus Operator has it evaluate rules, and looksBack how old a sample may be by default.
	evaluates = "30s"
	looksBack = "5m"
	// servingPort is the port of replicas, and clientPort that of etcd.
	servingPort = "6443"
	clientPort  = "2379"
)

// serviceLabel is the label that says which service a target belongs to.
const serviceLabel = "tripod_service"

// prometheus scrapes one cluster and evaluates the rules of the chart.
type prometheus struct {
	url     string
	dir     string
	process *framework.Process
	targets int
}

// withoutPrometheus says why alerts cannot be evaluated. "" means that they can.
func withoutPrometheus(helm string) string {
	if _, err := exec.LookPath("prometheus"); err != nil {
		return "needs the program prometheus (apt-get install prometheus)"
	}
	if _, err := os.Stat(helm); err != nil {
		return "needs helm (make bin/tools/helm)"
	}
	return ""
}

// startPrometheus starts a Prometheus without a history. It returns when all targets are up.
func (c *cluster) startPrometheus(ctx context.Context, m monitoring) (p *prometheus, err error) {
	p = &prometheus{}
	if p.dir, err = os.MkdirTemp(c.environment.Dir, "prometheus-"); err != nil {
		return nil, err
	}
	port, err := framework.FreePort()
	if err != nil {
		return nil, err
	}
	p.url = fmt.Sprintf("http://127.0.0.1:%d", port)
	config, targets, err := c.prometheusConfig(m)
	if err != nil {
		return nil, err
	}
	p.targets = targets
	groups, err := compress(m.groups, compression)
	if err != nil {
		return nil, err
	}
	lookback, err := shorter(looksBack, compression)
	if err != nil {
		return nil, err
	}
	if err := errors.Join(p.write("rules.yaml", map[string]any{"groups": groups}), p.write("prometheus.yaml", config)); err != nil {
		return nil, err
	}
	p.process, err = c.environment.Start(framework.Command{Name: "prometheus", Path: "prometheus", Dir: p.dir, Args: []string{
		"--config.file=" + filepath.Join(p.dir, "prometheus.yaml"), "--storage.tsdb.path=" + filepath.Join(p.dir, "data"),
		"--web.listen-address=" + strings.TrimPrefix(p.url, "http://"), "--query.lookback-delta=" + lookback, "--log.level=warn",
	}})
	if err != nil {
		return nil, err
	}
	if err := framework.Poll(ctx, "Prometheus scrapes all targets", p.scrapesAll); err != nil {
		return nil, errors.Join(err, p.stop())
	}
	return p, nil
}

func (p *prometheus) write(name string, content any) error {
	data, err := yaml.Marshal(content)
	if err != nil {
		return err
	}
	return os.WriteFile(filepath.Join(p.dir, name), data, 0o600)
}

// stop stops Prometheus and removes its data.
func (p *prometheus) stop() error {
	return errors.Join(p.process.Stop(), os.RemoveAll(filepath.Join(p.dir, "data")))
}

// prometheusConfig returns the configuration that Prometheus Operator would make of the ServiceMonitors. Its targets are the replicas.
func (c *cluster) prometheusConfig(m monitoring) (config map[string]any, targets int, err error) {
	interval, err := shorter(evaluates, compression)
	if err != nil {
		return nil, 0, err
	}
	var scrapes []any
	for _, endpoint := range m.endpoints {
		scrape, found, err := c.scrape(endpoint)
		if err != nil {
			return nil, 0, err
		}
		scrapes, targets = append(scrapes, scrape), targets+found
	}
	return map[string]any{
		"global":     map[string]any{"evaluation_interval": interval},
		"rule_files": []string{"rules.yaml"}, "scrape_configs": scrapes,
	}, targets, nil
}

// scrape returns how to scrape the pods of an endpoint. A scrape may take as long as the time between two.
func (c *cluster) scrape(endpoint monitoredEndpoint) (config map[string]any, targets int, err error) {
	interval, err := shorter(scrapes, compression)
	if err != nil {
		return nil, 0, err
	}
	service := ""
	var relabelings []any
	for _, r := range endpoint.Relabelings {
		config := map[string]any{"target_label": r.TargetLabel}
		if len(r.SourceLabels) > 0 {
			config["source_labels"] = r.SourceLabels
		}
		switch r.TargetLabel {
		case "__address__": // the Service, for which the balancer stands
			config["replacement"] = strings.TrimPrefix(c.url, "https://")
		case serviceLabel:
			service = r.Replacement
			fallthrough
		default:
			if r.Replacement != "" {
				config["replacement"] = r.Replacement
			}
		}
		relabelings = append(relabelings, config)
	}
	pods := c.pods(service, endpoint.Port)
	if len(pods) == 0 {
		return nil, 0, fmt.Errorf("the chart scrapes %q, which this cluster does not have", service)
	}
	config = map[string]any{
		"job_name": service, "scrape_interval": interval, "scrape_timeout": interval, "static_configs": pods, "relabel_configs": relabelings,
	}
	if endpoint.Path != "" {
		config["metrics_path"] = endpoint.Path
	}
	if len(endpoint.Params) > 0 {
		config["params"] = endpoint.Params
	}
	if endpoint.Scheme == "https" {
		config["scheme"] = endpoint.Scheme
		config["tls_config"] = map[string]any{
			"server_name": "localhost", "ca_file": filepath.Join(c.pki, serverCA+".crt"),
			"cert_file": filepath.Join(c.pki, "admin.crt"), "key_file": filepath.Join(c.pki, "admin.key"),
		}
	}
	return config, len(pods), nil
}

// pods returns the replicas of a service as targets, with the labels that Prometheus Operator gives to pods.
func (c *cluster) pods(service, endpoint string) (pods []any) {
	port := servingPort
	if service == etcd {
		port = clientPort
	}
	for _, name := range c.all() {
		if of, _, _ := strings.Cut(name, "-"); of != service {
			continue
		}
		pods = append(pods, map[string]any{
			"targets": []string{c.machine.hosts[name].address + ":" + port},
			"labels": map[string]string{
				"namespace": releaseNamespace, "service": releaseName + "-" + service, "job": releaseName + "-" + service,
				"pod": releaseName + "-" + name, "container": service, "endpoint": endpoint,
			},
		})
	}
	return pods
}

// series is one series of an answer to a query. The values of a range are pairs of a time and a text.
type series struct {
	Metric map[string]string `json:"metric"`
	Values [][2]any          `json:"values"`
}

// query sends a query for a range of time.
func (p *prometheus) query(ctx context.Context, query string, from, until time.Time) ([]series, error) {
	parameters := url.Values{
		"query": {query}, "step": {"0.5"}, "start": {from.Format(time.RFC3339Nano)}, "end": {until.Format(time.RFC3339Nano)},
	}
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, p.url+"/api/v1/query_range?"+parameters.Encode(), nil)
	if err != nil {
		return nil, err
	}
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		return nil, err
	}
	defer resp.Body.Close() //nolint:errcheck // it was only read
	var answer struct {
		Error string `json:"error"`
		Data  struct {
			Result []series `json:"result"`
		} `json:"data"`
	}
	if err := json.NewDecoder(resp.Body).Decode(&answer); err != nil {
		return nil, fmt.Errorf("cannot read the answer of Prometheus (%s): %w", resp.Status, err)
	}
	if answer.Error != "" {
		return nil, errors.New(answer.Error)
	}
	return answer.Data.Result, nil
}

func (p *prometheus) scrapesAll(ctx context.Context) error {
	select {
	case <-p.process.Done():
		return fmt.Errorf("it has ended: look at %s", p.process.Log)
	default:
	}
	now := time.Now()
	up, err := p.query(ctx, "max_over_time(up[10m]) == 1", now, now) // on a busy machine, a scrape may fail now and then
	if err == nil && len(up) != p.targets {
		err = fmt.Errorf("%d of %d targets were up", len(up), p.targets)
	}
	return err
}

// firing is an alert that fired.
type firing struct {
	Alert string `json:"alert"`
	// After is the time from the beginning of the fault until it fired, as the rules count. It is negative if the alert fired before.
	After time.Duration `json:"after"`
}

// fired returns the alerts that fired, in the order in which they did.
func (p *prometheus) fired(ctx context.Context, from, began time.Time) ([]firing, error) {
	all, err := p.query(ctx, `ALERTS{alertstate="firing"}`, from, time.Now())
	if err != nil {
		return nil, err
	}
	first := map[string]time.Duration{}
	for _, one := range all {
		if len(one.Values) == 0 {
			continue
		}
		seconds, ok := one.Values[0][0].(float64)
		if !ok {
			return nil, fmt.Errorf("Prometheus answers with the time %v", one.Values[0][0])
		}
		after := time.UnixMilli(int64(seconds * 1000)).Sub(began)
		if earlier, known := first[one.Metric["alertname"]]; !known || after < earlier {
			first[one.Metric["alertname"]] = after
		}
	}
	var fired []firing
	for alert, after := range first {
		fired = append(fired, firing{alert, (compression * after).Round(time.Minute)})
	}
	slices.SortFunc(fired, func(a, b firing) int {
		if a.After != b.After {
			return int(a.After - b.After)
		}
		return strings.Compare(a.Alert, b.Alert)
	})
	return fired, nil
}
