// Copyright The Tripod Authors.
// SPDX-License-Identifier: Apache-2.0

package pages

import (
	"net/http"
	"net/url"
	"testing"

	"github.com/stretchr/testify/assert"
)

func TestRequestsAreExplained(t *testing.T) {
	t.Parallel()
	service := func(group, version string, ref any) any {
		return map[string]any{
			"metadata": map[string]any{"name": version + "." + group}, "spec": map[string]any{"group": group, "version": version, "service": ref},
			"status": map[string]any{"conditions": []any{map[string]any{"type": "Available", "status": "False", "reason": "Bad", "message": evil}}},
		}
	}
	named := func(namespace, name string) any { return map[string]any{"namespace": namespace, "name": name} }
	pages := serving(t, map[string]any{
		"/apis/apiregistration.k8s.io/v1/apiservices": map[string]any{"items": []any{
			service("apps", "v1", named("tripod-system", "core")), service("x.example.com", "v1", named("tripod-system", "extensions-team")),
			service("metrics.k8s.io", "v1", named("kube-system", "metrics-server")), service("", "v1", nil), service("y.example.com", "v1", nil),
		}},
		"/apis/authorization.k8s.io/v1/selfsubjectaccessreviews": map[string]any{"status": map[string]any{"allowed": true, "reason": evil}},
		"/apis/authorization.k8s.io/v1/subjectaccessreviews":     map[string]any{"status": map[string]any{"allowed": false}},
	})
	for target, want := range map[string]string{
		"/apis/apps/v1/deployments": `<dd id="service">core</dd>`, "/apis/x.example.com/v1/boats": "That is the partition team of extensions.",
		"/apis/metrics.k8s.io/v1/pods": "aggregated API server kube-system/metrics-server", "/api/v1/pods": "names no service, and the group is one of Kubernetes",
		"/apis/y.example.com/v1/boats": "extensions, or one of its partitions", "/apis/z.example.com/v1/boats": "No APIService names z.example.com/v1.",
		"/version": "Paths outside of API groups go to core", "/apis": `<dd id="service">aggregator</dd>`, "/api": "The APIService v1. names no service",
		"/api/v2/x": "The APIService v1. names no service", "/healthz": `<dd id="service">aggregator</dd>`,
	} {
		answer := get(t, pages, "/explain?"+url.Values{"verb": {"get"}, "target": {target}}.Encode())
		text := answer.Body.String()
		assert.Equal(t, http.StatusOK, answer.Code, text)
		assert.Contains(t, text, want, target)
		assert.Contains(t, text, "<strong>Allowed</strong> for you.")
		assert.NotContains(t, text, "<script")
	}
	answer := get(t, pages, "/explain?"+url.Values{"verb": {"get"}, "target": {"/api/v1/pods"}, "user": {evil}}.Encode())
	assert.Contains(t, answer.Body.String(), "<strong>Not allowed</strong> for ")
	answer = get(t, pages, "/explain?"+url.Values{"verb": {"get"}, "target": {"/api/v1/pods"}, "groups": {" , "}}.Encode())
	assert.Contains(t, answer.Body.String(), "<strong>Allowed</strong> for you.")
	for _, target := range []string{"//example.com/api/v1/pods", "a/b/c/d"} {
		answer = get(t, pages, "/explain?"+url.Values{"verb": {"get"}, "target": {target}}.Encode())
		assert.Equal(t, http.StatusBadRequest, answer.Code, target)
	}
	assert.Equal(t, http.StatusBadRequest, get(t, pages, "/explain?verb=fly&target=/api").Code)
}

// TestWhatTheAPIDoesNotSayIsNoMistakeOfTheReader has an API that answers 404 to all reads.
func TestWhatTheAPIDoesNotSayIsNoMistakeOfTheReader(t *testing.T) {
	t.Parallel()
	pages := serving(t, map[string]any{})
	for _, target := range []string{"/api/v1/pods", "pods"} {
		answer := get(t, pages, "/explain?"+url.Values{"verb": {"get"}, "target": {target}}.Encode())
		assert.NotEqual(t, http.StatusOK, answer.Code, target)
		assert.NotEqual(t, http.StatusBadRequest, answer.Code, target)
		assert.NotContains(t, answer.Body.String(), "has no resource", target)
	}
}
