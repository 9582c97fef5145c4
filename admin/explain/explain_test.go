// Copyright The Tripod Authors.
// SPDX-License-Identifier: Apache-2.0

package explain

import (
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	authorizationv1 "k8s.io/api/authorization/v1"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
)

// api is an API server with some APIServices, in which the user jane may do everything, and the caller nothing.
type api struct {
	t *testing.T
	// forbidden are paths that the caller may not use.
	forbidden []string
	// reviews are the questions of the last explanation.
	reviews []authorizationv1.SubjectAccessReviewSpec
	metrics string
}

const apiServices = `{"items": [
	{"metadata": {"name": "v1."}, "spec": {"version": "v1", "service": {"namespace": "tripod-system", "name": "core"}}},
	{"metadata": {"name": "v1.apps"}, "spec": {"group": "apps", "version": "v1", "service": {"namespace": "tripod-system", "name": "core"}}},
	{"metadata": {"name": "v1.example.com"}, "spec": {"group": "example.com", "version": "v1", "service": {"namespace": "tripod-system", "name": "extensions-boats"}}},
	{"metadata": {"name": "v1.own.example.com"}, "spec": {"group": "own.example.com", "version": "v1", "service": {"namespace": "tripod-system", "name": "books"}}},
	{"metadata": {"name": "v1beta1.metrics.k8s.io"}, "spec": {"group": "metrics.k8s.io", "version": "v1beta1", "service": {"namespace": "kube-system", "name": "metrics-server"}},
	 "status": {"conditions": [{"type": "Available", "status": "False", "reason": "MissingEndpoints", "message": "none"}]}},
	{"metadata": {"name": "v1.local.example.com"}, "spec": {"group": "local.example.com", "version": "v1"}}]}`

func (a *api) ServeHTTP(w http.ResponseWriter, req *http.Request) {
	w.Header().Set("Content-Type", "application/json")
	for _, path := range a.forbidden {
		if req.URL.Path == path {
			w.WriteHeader(http.StatusForbidden)
			fmt.Fprint(w, `{"kind": "Status", "apiVersion": "v1", "status": "Failure", "reason": "Forbidden", "code": 403, "message": "no right"}`)
			return
		}
	}
	answers := map[string]string{
		"/apis/apiregistration.k8s.io/v1/apiservices": apiServices,
		"/api": `{"versions": ["v1"]}`, "/apis": `{"groups": [{"name": "apps", "versions": [{"groupVersion": "apps/v1", "version": "v1"}],
			"preferredVersion": {"groupVersion": "apps/v1", "version": "v1"}}]}`,
		"/api/v1": `{"groupVersion": "v1", "resources": [{"name": "pods", "kind": "Pod", "namespaced": true, "shortNames": ["po"]},
			{"name": "nodes", "kind": "Node"}]}`,
		"/apis/apps/v1": `{"groupVersion": "apps/v1", "resources": [{"name": "deployments", "kind": "Deployment", "namespaced": true}]}`,
	}
	switch path := req.URL.Path; {
	case strings.HasSuffix(path, "subjectaccessreviews"):
		var review authorizationv1.SubjectAccessReview
		assert.NoError(a.t, json.NewDecoder(req.Body).Decode(&review))
		a.reviews = append(a.reviews, review.Spec)
		review.Status.Allowed = review.Spec.User == "jane"
		if review.Status.Allowed {
			review.Status.Reason = "by a binding"
		}
		assert.NoError(a.t, json.NewEncoder(w).Encode(review))
	case path == "/metrics":
		w.Header().Set("Content-Type", "text/plain")
		fmt.Fprint(w, a.metrics)
	case answers[path] != "":
		assert.Equal(a.t, http.MethodGet, req.Method)
		fmt.Fprint(w, answers[path])
	default:
		w.WriteHeader(http.StatusNotFound)
	}
}

func (a *api) client() kubernetes.Interface {
	server := httptest.NewServer(a)
	a.t.Cleanup(server.Close)
	client, err := kubernetes.NewForConfig(&rest.Config{Host: server.URL, ContentConfig: rest.ContentConfig{ContentType: "application/json"}})
	require.NoError(a.t, err)
	return client
}

func TestServicesOfRequests(t *testing.T) {
	t.Parallel()
	client := (&api{t: t}).client()
	for _, test := range []struct {
		verb, target, namespace, request, service string
		known                                     bool
		rule                                      string
	}{
		{"GET", "/api/v1/namespaces/shop/pods", "", "GET /api/v1/namespaces/shop/pods", "core", true, "v1. names tripod-system/core"},
		{"list", "po", "shop", "GET /api/v1/namespaces/shop/pods", "core", true, "core"},
		{"watch", "pods", "", "GET /api/v1/pods?watch=true", "core", true, "core"},
		{"delete", "deployments.apps/front", "shop", "DELETE /apis/apps/v1/namespaces/shop/deployments/front", "core", true, "v1.apps"},
		{"get", "pods/front/log", "shop", "GET /api/v1/namespaces/shop/pods/front/log", "core", true, "core"},
		{"get", "nodes/n", "shop", "GET /api/v1/nodes/n", "core", true, "core"},
		{"get", "/apis/example.com/v1/boats", "", "", "extensions-boats", true, "partition boats"},
		{"get", "/apis/own.example.com/v1/books", "", "", "books", true, "If the aggregator has no backend of that name"},
		{"get", "/apis/none.example.com/v1/boats", "", "", "extensions, or one of its partitions", false, "No APIService names none.example.com/v1"},
		{"get", "/apis/local.example.com/v1/boats", "", "", "extensions, or one of its partitions", false, "names no service"},
		{"get", "/apis/metrics.k8s.io/v1beta1/pods", "", "", "aggregated API server kube-system/metrics-server", false, "names that Service"},
		{"get", "/apis/batch/v1/jobs", "", "", "core", true, "one of Kubernetes"},
		{"get", "/apis", "", "", "aggregator", true, "aggregator itself"},
		{"get", "/apis/apiregistration.k8s.io/v1/apiservices", "", "", "aggregator", true, "aggregator itself"},
		{"get", "/version", "", "", "core", true, "outside of API groups"},
	} {
		e, err := Explain(t.Context(), client, Action{test.verb, test.target, test.namespace}, User{Name: "jane"})
		require.NoError(t, err, test.target)
		if test.request != "" {
			assert.Equal(t, test.request, e.Request)
		}
		assert.Equal(t, test.service, e.Service, test.target)
		assert.Equal(t, test.known, e.Known, test.target)
		assert.Contains(t, e.Rule, test.rule, test.target)
		assert.True(t, e.Asked && e.Allowed, test.target)
		assert.Equal(t, "by a binding", e.Reason)
	}
	e, err := Explain(t.Context(), client, Action{Verb: "get", Target: "/apis/metrics.k8s.io/v1beta1/pods"}, User{})
	require.NoError(t, err)
	assert.Contains(t, strings.Join(e.Notes, "\n"), "MissingEndpoints: none")
}

func TestReviewsAreThoseOfTheRequest(t *testing.T) {
	t.Parallel()
	a := &api{t: t}
	client := a.client()
	e, err := Explain(t.Context(), client, Action{Verb: "DELETE", Target: "/apis/apps/v1/namespaces/shop/deployments/front"}, User{Name: "joe", Groups: []string{"g"}})
	require.NoError(t, err)
	assert.True(t, e.Asked)
	assert.False(t, e.Allowed)
	assert.Equal(t, "No authorizer allows it, as no binding of RBAC does.", e.Reason)
	_, err = Explain(t.Context(), client, Action{Verb: "get", Target: "/healthz"}, User{})
	require.NoError(t, err)
	_, err = Explain(t.Context(), client, Action{Verb: "list", Target: "/api/v1/pods?fieldSelector=spec.nodeName%3Dn"}, User{})
	require.NoError(t, err)
	require.Len(t, a.reviews, 3)
	assert.Equal(t, authorizationv1.SubjectAccessReviewSpec{User: "joe", Groups: []string{"g"}, ResourceAttributes: &authorizationv1.ResourceAttributes{
		Namespace: "shop", Verb: "delete", Group: "apps", Version: "v1", Resource: "deployments", Name: "front",
	}}, a.reviews[0])
	assert.Equal(t, &authorizationv1.NonResourceAttributes{Path: "/healthz", Verb: "get"}, a.reviews[1].NonResourceAttributes)
	assert.Equal(t, "spec.nodeName=n", a.reviews[2].ResourceAttributes.FieldSelector.RawSelector)
	e, err = Explain(t.Context(), client, Action{Verb: "get", Target: "/apis/clusterpedia.io/v1beta1/resources/api/v1/pods"}, User{})
	require.NoError(t, err)
	assert.False(t, e.Asked, "search has rules of its own")
	assert.Len(t, a.reviews, 3)
}

func TestExplanationsSayWhatTheyMayNotAsk(t *testing.T) {
	t.Parallel()
	client := (&api{t: t, forbidden: []string{
		"/apis/apiregistration.k8s.io/v1/apiservices", "/apis/authorization.k8s.io/v1/subjectaccessreviews", "/metrics",
	}}).client()
	e, err := Explain(t.Context(), client, Action{Verb: "get", Target: "/api/v1/pods"}, User{Name: "jane"})
	require.NoError(t, err)
	assert.Equal(t, "not known", e.Service)
	assert.False(t, e.Known || e.Asked || e.Allowed)
	assert.Contains(t, e.Reason, "You may not ask that: no right")
	states, note, err := Replicas(t.Context(), client, "core")
	require.NoError(t, err)
	assert.Empty(t, states)
	assert.Contains(t, note, "may not read /metrics")
}

func TestWrongActionsSayWhatIsWrong(t *testing.T) {
	t.Parallel()
	client := (&api{t: t}).client()
	for _, test := range []struct{ verb, target, want string }{
		{"fetch", "pods", "is no verb"}, {"get", "", "name a path"}, {"get", "//host/x", "is no path"}, {"get", "trees", "has no resource"},
		{"get", "pods/a/b/c", "is no resource"}, {"get", "pods/a", "are in namespaces"}, {"get", "/" + strings.Repeat("x", 3000), "at most"},
		{"get", "nodes/..", "is no name"},
	} {
		_, err := Explain(t.Context(), client, Action{Verb: test.verb, Target: test.target}, User{})
		assert.ErrorAs(t, err, &BadAction{}, test.target)
		assert.ErrorContains(t, err, test.want)
	}
}

func TestReplicasAreThoseOfTheMetrics(t *testing.T) {
	t.Parallel()
	gauge := func(lines ...string) string {
		return "# TYPE other counter\nother 3\n# TYPE tripod_backend_endpoints gauge\n" + strings.Join(lines, "\n") + "\n"
	}
	for name, test := range map[string]struct {
		metrics string
		want    []ReplicaState
	}{
		"serving replicas get requests": {
			gauge(`tripod_backend_endpoints{backend="core",state="ejected"} 1`, `tripod_backend_endpoints{backend="core",state="serving"} 2`,
				`tripod_backend_endpoints{backend="core",state="draining"} 1`, `tripod_backend_endpoints{backend="core",state="frozen"} 0`,
				`tripod_backend_endpoints{backend="extensions",state="serving"} 7`),
			[]ReplicaState{{"serving", 2, true}, {"draining", 1, false}, {"ejected", 1, false}},
		},
		"others do if there are none": {
			gauge(`tripod_backend_endpoints{backend="core",state="ejected"} 1`, `tripod_backend_endpoints{backend="core",state="busy"} 1`),
			[]ReplicaState{{"busy", 1, true}, {"ejected", 1, false}},
		},
		"a replica that is held back does before one that is about to stop": {
			gauge(`tripod_backend_endpoints{backend="core",state="draining"} 1`, `tripod_backend_endpoints{backend="core",state="held-back"} 1`),
			[]ReplicaState{{"held-back", 1, true}, {"draining", 1, false}},
		},
		"none": {gauge(`tripod_backend_endpoints{backend="core",state="refusing"} 2`), []ReplicaState{{"refusing", 2, false}}},
	} {
		states, note, err := Replicas(t.Context(), (&api{t: t, metrics: test.metrics}).client(), "core")
		require.NoError(t, err, name)
		assert.Empty(t, note)
		assert.Equal(t, test.want, states, name)
	}
	_, note, err := Replicas(t.Context(), (&api{t: t, metrics: "# TYPE other counter\nother 3\n"}).client(), "core")
	require.NoError(t, err)
	assert.Contains(t, note, "has no metric")
	_, _, err = Replicas(t.Context(), (&api{t: t, metrics: "<html>"}).client(), "core")
	assert.ErrorContains(t, err, "cannot read the metrics")
}
