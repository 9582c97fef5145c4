// Copyright The Tripod Authors.
// SPDX-License-Identifier: Apache-2.0

package introspection

import (
	"bytes"
	"context"
	"encoding/json"
	"encoding/pem"
	"errors"
	"fmt"
	"maps"
	"math"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	dto "github.com/prometheus/client_model/go"
	"github.com/prometheus/common/expfmt"
	"github.com/prometheus/common/model"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	admissionv1 "k8s.io/api/admission/v1"

	"github.com/tripod-k8s/tripod/test/framework"
	"github.com/tripod-k8s/tripod/test/framework/both"
)

// series are the metrics of some resources, as Prometheus reads them: by name and labels.
type series map[string]float64

// measured are the resources of the workload, which no controller uses: a built-in and a custom one.
var measured = []string{"podtemplates", "sloops"}

// measuredFamilies are what alerts and rules about kube-apiserver are made of.
var measuredFamilies = []string{
	"apiserver_request_total", "apiserver_request_duration_seconds", "apiserver_request_sli_duration_seconds", "apiserver_response_sizes",
	"apiserver_longrunning_requests",
}

// scrape reads the metrics that the endpoints of the kubernetes Service have about the workload.
func scrape(t *testing.T, side *both.Side) series {
	t.Helper()
	parser := expfmt.NewTextParser(model.UTF8Validation)
	families, err := parser.TextToMetricFamilies(strings.NewReader(ask(t, side, admin, get("/metrics")).body))
	require.NoError(t, err)
	found := series{}
	for _, name := range measuredFamilies {
		for _, metric := range families[name].GetMetric() {
			labels := map[string]string{}
			for _, pair := range metric.GetLabel() {
				labels[pair.GetName()] = pair.GetValue()
			}
			if slices.Contains(measured, labels["resource"]) {
				found.add(name, labels, metric)
			}
		}
	}
	return found
}

func (s series) add(name string, labels map[string]string, metric *dto.Metric) {
	histogram := metric.GetHistogram()
	if histogram == nil {
		s[written(name, labels)] = metric.GetCounter().GetValue() + metric.GetGauge().GetValue()
		return
	}
	s[written(name+"_count", labels)] = float64(histogram.GetSampleCount())
	for _, bucket := range histogram.GetBucket() {
		within := maps.Clone(labels)
		within["le"] = fmt.Sprint(bucket.GetUpperBound())
		if math.IsInf(bucket.GetUpperBound(), 1) {
			within["le"] = "+Inf"
		}
		s[written(name+"_bucket", within)] = float64(bucket.GetCumulativeCount())
	}
}

func written(name string, labels map[string]string) string {
	var pairs []string
	for _, key := range slices.Sorted(maps.Keys(labels)) {
		pairs = append(pairs, fmt.Sprintf("%s=%q", key, labels[key]))
	}
	return name + "{" + strings.Join(pairs, ",") + "}"
}

// counts returns the series without buckets, which depend on the speed of the machine.
func (s series) counts() series {
	counts := maps.Clone(s)
	maps.DeleteFunc(counts, func(name string, value float64) bool { return strings.Contains(name, "_bucket{") || value == 0 })
	return counts
}

// startWebhook starts a webhook that allows everything, slowly, and returns its URL and its CA.
func startWebhook(t *testing.T) (url, ca string) {
	t.Helper()
	server := httptest.NewTLSServer(http.HandlerFunc(func(w http.ResponseWriter, req *http.Request) {
		var review admissionv1.AdmissionReview
		if err := json.NewDecoder(req.Body).Decode(&review); err != nil {
			http.Error(w, err.Error(), http.StatusBadRequest)
			return
		}
		time.Sleep(1500 * time.Millisecond) // that is what is measured: objectives of writes end at a second
		review.Response = &admissionv1.AdmissionResponse{UID: review.Request.UID, Allowed: true}
		_ = json.NewEncoder(w).Encode(review) // the API server checks the answer
	}))
	t.Cleanup(server.Close)
	return server.URL, string(pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: server.Certificate().Raw}))
}

const webhooks = `
apiVersion: admissionregistration.k8s.io/v1
kind: ValidatingWebhookConfiguration
metadata: {name: slo}
webhooks:
- name: slow.example.com
  objectSelector: {matchLabels: {slow: "yes"}}
  clientConfig: {url: URL, caBundle: CA}
  rules: &rules [{apiGroups: [""], apiVersions: [v1], operations: [CREATE], resources: [podtemplates]}, {apiGroups: [example.com], apiVersions: [v1], operations: [CREATE], resources: [sloops]}]
  sideEffects: None
  admissionReviewVersions: [v1]
- name: fails.example.com
  objectSelector: {matchLabels: {fails: "yes"}}
  clientConfig: {url: "https://127.0.0.1:1", caBundle: CA}
  rules: *rules
  sideEffects: None
  admissionReviewVersions: [v1]
`

// object returns the body of an object of the workload.
func object(resource, name, label string) string {
	if resource == "podtemplates" {
		return fmt.Sprintf(`{"apiVersion": "v1", "kind": "PodTemplate", "metadata": {"name": %q, "labels": {%q: "yes"}},
			"template": {"spec": {"containers": [{"name": "a", "image": "b"}]}}}`, name, label)
	}
	return fmt.Sprintf(`{"apiVersion": "example.com/v1", "kind": "Sloop", "metadata": {"name": %q, "labels": {%q: "yes"}}}`, name, label)
}

// workload sends requests of all kinds for one resource, and returns the codes of the answers. Of each, an API server counts none or one.
func workload(t *testing.T, side *both.Side, namespace, resource string) (codes []string) {
	t.Helper()
	root := "/api/v1"
	if resource != "podtemplates" {
		root = "/apis/example.com/v1"
	}
	all, some := root+"/"+resource, root+"/namespaces/"+namespace+"/"+resource
	with := func(contentType string) http.Header { return http.Header{"Content-Type": {contentType}} }
	for _, step := range []struct {
		user, method, path, body, contentType string
	}{
		{method: "GET", path: all}, {method: "GET", path: some}, {method: "GET", path: some + "?fieldSelector=metadata.name%3Dx"},
		{method: "GET", path: some + "/x"}, {user: nobody, method: "GET", path: some + "/x"}, {user: anonymous, method: "POST", path: some, body: "{}"},
		{method: "POST", path: some, body: object(resource, "x", "a")}, {method: "POST", path: some, body: object(resource, "x", "a")},
		{method: "POST", path: some + "?dryRun=All", body: object(resource, "y", "a")}, {method: "POST", path: some, body: "nonsense"},
		{method: "POST", path: some, body: object(resource, "slow", "slow")}, {method: "POST", path: some, body: object(resource, "fails", "fails")},
		{method: "POST", path: some, body: object(resource, "fails", "fails")}, {method: "POST", path: some, body: object(resource, "fails", "fails")},
		{method: "GET", path: some + "/x"}, {method: "HEAD", path: some + "/x"}, {method: "PUT", path: some + "/x", body: object(resource, "x", "b")},
		{method: "PATCH", path: some + "/x", body: `{"metadata": {"labels": {"c": "yes"}}}`, contentType: "application/merge-patch+json"},
		{method: "PATCH", path: some + "/z?fieldManager=f", body: object(resource, "z", "a"), contentType: "application/apply-patch+yaml"},
		{method: "PATCH", path: some + "/x", body: "{}", contentType: "application/unknown"}, {method: "PUT", path: some + "/x/status", body: object(resource, "x", "b")},
		{method: "GET", path: some + "/x/unknown"}, {method: "GET", path: some + "?watch=true&timeoutSeconds=1"}, {method: "GET", path: all + "?watch=true&timeoutSeconds=1"},
		{method: "GET", path: root + "/watch/" + resource + "?timeoutSeconds=1"}, {method: "DELETE", path: some + "/x"}, {method: "DELETE", path: some + "/x"},
		{method: "DELETE", path: some}, {method: "GET", path: some + "?limit=-1"}, {method: "GET", path: some + "?watch=true&resourceVersion=nonsense"},
	} {
		if step.user == "" {
			step.user = admin
		}
		if step.contentType == "" {
			step.contentType = "application/json"
		}
		answer := ask(t, side, step.user, request{method: step.method, path: step.path, body: step.body, header: with(step.contentType)})
		codes = append(codes, fmt.Sprintf("%s %s: %d", step.method, strings.ReplaceAll(step.path, namespace, "NAMESPACE"), answer.code))
	}
	return codes
}

// TestTheKubernetesEndpointsCountWhatServicesServe compares the metrics that kubernetes-mixin's rules and alerts read. The endpoints of the kubernetes
// Service are all that kube-prometheus scrapes.
func TestTheKubernetesEndpointsCountWhatServicesServe(t *testing.T) {
	url, ca := startWebhook(t)
	encoded, err := json.Marshal([]byte(ca))
	require.NoError(t, err)
	var codes [2][]string
	var found [2]series
	for i, side := range []*both.Side{stock, tested} {
		namespace := framework.CreateNamespace(t, side.Cluster)
		require.NoError(t, side.Cluster.Create(t.Context(), framework.CRD{Kind: "Sloop", Subresources: "{status: {}}"}.String()))
		require.NoError(t, side.Cluster.Create(t.Context(), strings.NewReplacer("URL", url, "CA", string(encoded)).Replace(webhooks)))
		awaitSloops(t, side, namespace)
		before := scrape(t, side)
		for _, resource := range measured {
			codes[i] = append(codes[i], workload(t, side, namespace, resource)...)
		}
		found[i] = scrape(t, side)
		for name, value := range before {
			found[i][name] -= value
		}
	}
	assert.Equal(t, codes[0], codes[1])
	assert.NotEmpty(t, found[0].counts())
	assert.Equal(t, found[0].counts(), found[1].counts())
	testRules(t, found)
}

// awaitSloops returns when sloops are served, and webhooks are called.
func awaitSloops(t *testing.T, side *both.Side, namespace string) {
	t.Helper()
	for _, path := range []string{"/api/v1/namespaces/" + namespace + "/podtemplates", "/apis/example.com/v1/namespaces/" + namespace + "/sloops"} {
		resource := path[strings.LastIndex(path, "/")+1:]
		framework.Eventually(t, "webhooks are called for "+resource, func(context.Context) error {
			answer := ask(t, side, admin, request{
				method: http.MethodPost, path: path, body: object(resource, "await", "fails"), header: http.Header{"Content-Type": {"application/json"}},
			})
			if answer.code != http.StatusInternalServerError {
				return errors.New(answer.body)
			}
			return nil
		})
	}
	framework.Eventually(t, "requests for sloops are counted", func(context.Context) error {
		ask(t, side, admin, get("/apis/example.com/v1/sloops"))
		for name := range scrape(t, side) {
			if strings.Contains(name, "sloops") {
				return nil
			}
		}
		return errors.New("they are not")
	})
}

// testRules has promtool evaluate rules as those of kubernetes-mixin: ratios of errors and of slow requests, a quantile, and an alert. Each of them must
// say the same about both sides.
func testRules(t *testing.T, found [2]series) {
	promtool, err := exec.LookPath("promtool")
	if err != nil && os.Getenv("TEST_PROMTOOL") != "1" {
		t.Skipf("rules are not evaluated: %v: apt-get install prometheus (TEST_PROMTOOL=1 makes this an error)", err)
	}
	require.NoError(t, err)
	dir := t.TempDir()
	var input bytes.Buffer
	for i, job := range []string{"stock", "tripod"} {
		for _, name := range slices.Sorted(maps.Keys(found[i])) {
			labelled := strings.Replace(name, "{", fmt.Sprintf("{job=%q,", job), 1)
			// The workload repeats every minute.
			fmt.Fprintf(&input, "  - {series: '%s', values: '0+%vx120'}\n", labelled, found[i][name])
		}
	}
	require.NoError(t, os.WriteFile(filepath.Join(dir, "rules.yaml"), []byte(rules), 0o600))
	require.NoError(t, os.WriteFile(filepath.Join(dir, "test.yaml"), []byte("rule_files: [rules.yaml]\nevaluation_interval: 1m\ntests:\n- interval: 1m\n  input_series:\n"+
		input.String()+expectations), 0o600))
	command := exec.CommandContext(t.Context(), promtool, "test", "rules", "test.yaml")
	command.Dir = dir
	output, err := command.CombinedOutput()
	assert.NoError(t, err, "%s", output)
}

// rules have the metrics, the labels and the form of kubernetes-mixin's rules about kube-apiserver, for both jobs.
const rules = `
groups:
- name: kube-apiserver
  rules:
  - record: burnrate
    labels: {verb: write}
    expr: |
      (
        sum by (job) (rate(apiserver_request_sli_duration_seconds_count{verb=~"POST|PUT|PATCH|DELETE",subresource!~"proxy|attach|log|exec|portforward"}[1h]))
        - sum by (job) (rate(apiserver_request_sli_duration_seconds_bucket{verb=~"POST|PUT|PATCH|DELETE",subresource!~"proxy|attach|log|exec|portforward",le=~"1(\\.0)?"}[1h]))
        + sum by (job) (rate(apiserver_request_total{verb=~"POST|PUT|PATCH|DELETE",code=~"5.."}[1h]))
      ) / sum by (job) (rate(apiserver_request_total{verb=~"POST|PUT|PATCH|DELETE"}[1h]))
  - record: burnrate
    labels: {verb: read}
    expr: |
      (
        sum by (job) (rate(apiserver_request_sli_duration_seconds_count{verb=~"LIST|GET",subresource!~"proxy|attach|log|exec|portforward"}[1h]))
        - (
          sum by (job) (rate(apiserver_request_sli_duration_seconds_bucket{verb=~"LIST|GET",scope=~"resource|",le=~"1(\\.0)?"}[1h]))
          + sum by (job) (rate(apiserver_request_sli_duration_seconds_bucket{verb=~"LIST|GET",scope="namespace",le=~"5(\\.0)?"}[1h]))
          + sum by (job) (rate(apiserver_request_sli_duration_seconds_bucket{verb=~"LIST|GET",scope="cluster",le=~"30(\\.0)?"}[1h]))
        )
        + (sum by (job) (rate(apiserver_request_total{verb=~"LIST|GET",code=~"5.."}[1h])) or 0 * sum by (job) (rate(apiserver_request_total[1h])))
      ) / sum by (job) (rate(apiserver_request_total{verb=~"LIST|GET"}[1h]))
  - record: rate_by_code
    expr: sum by (job, code, resource) (rate(apiserver_request_total[5m]))
  - record: is_fast
    expr: histogram_quantile(0.5, sum by (job, le, resource, verb) (rate(apiserver_request_sli_duration_seconds_bucket{verb!~"WATCH|CONNECT"}[5m]))) < bool 1
  - alert: ErrorBudgetBurn
    expr: sum by (job) (burnrate) > 14.4 * 0.01
    for: 2m
`

// expectations hold if both jobs have the same values.
const expectations = `
  promql_expr_test:
  - expr: count(burnrate)
    eval_time: 2h
    exp_samples: [{labels: '{}', value: 4}]
  - expr: abs(burnrate{job="tripod"} - ignoring(job) burnrate{job="stock"}) > 0.001
    eval_time: 2h
    exp_samples: []
  - expr: abs(rate_by_code{job="tripod"} - ignoring(job) rate_by_code{job="stock"}) > 0.000001
    eval_time: 2h
    exp_samples: []
  - expr: is_fast == 0
    eval_time: 2h
    exp_samples: []
  - expr: count(is_fast{job="tripod"}) - count(is_fast{job="stock"})
    eval_time: 2h
    exp_samples: [{labels: '{}', value: 0}]
  alert_rule_test:
  - eval_time: 2h
    alertname: ErrorBudgetBurn
    exp_alerts: [{exp_labels: {job: stock}}, {exp_labels: {job: tripod}}]
`
