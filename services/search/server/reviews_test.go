// Copyright The Tripod Authors.
// SPDX-License-Identifier: Apache-2.0

package server

import (
	"bytes"
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	authenticationv1 "k8s.io/api/authentication/v1"
	authorizationv1 "k8s.io/api/authorization/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	clientgoscheme "k8s.io/client-go/kubernetes/scheme"

	"github.com/tripod-k8s/tripod/services/search/rights"
)

// maySend are grants of the hub to ask about oneself.
func maySend(users ...string) (grants []string) {
	for _, name := range users {
		grants = append(grants, name+" create selfsubjectaccessreviews", name+" create selfsubjectrulesreviews", name+" create selfsubjectreviews")
	}
	return grants
}

// reviewed sends a review in a media type, and reads the answer in the same.
func (c *cluster) reviewed(t *testing.T, name, where, resource, mediaType string, object runtime.Object) *httptest.ResponseRecorder {
	t.Helper()
	kinds, _, err := clientgoscheme.Scheme.ObjectKinds(object)
	require.NoError(t, err)
	info, ok := runtime.SerializerInfoForMediaType(clientgoscheme.Codecs.SupportedMediaTypes(), mediaType)
	require.True(t, ok)
	var body bytes.Buffer
	require.NoError(t, clientgoscheme.Codecs.EncoderForVersion(info.Serializer, kinds[0].GroupVersion()).Encode(object, &body))
	path := fmt.Sprintf("/apis/clusterpedia.io/v1beta1/resources%s/apis/%s/%s", where, kinds[0].GroupVersion(), resource)
	req := httptest.NewRequest(http.MethodPost, path, &body)
	req.Header.Set("Content-Type", mediaType)
	req.Header.Set("Accept", mediaType)
	answer := httptest.NewRecorder()
	c.send(t, name, req, answer)
	if answer.Code == http.StatusCreated {
		decoder := clientgoscheme.Codecs.DecoderToVersion(info.Serializer, kinds[0].GroupVersion())
		_, _, err = decoder.Decode(answer.Body.Bytes(), nil, object)
		require.NoError(t, err)
	}
	return answer
}

func asks(verb, resource, namespace, name string) *authorizationv1.SelfSubjectAccessReview {
	of, sub, _ := strings.Cut(resource, "/")
	gr := schema.ParseGroupResource(of)
	return &authorizationv1.SelfSubjectAccessReview{Spec: authorizationv1.SelfSubjectAccessReviewSpec{ResourceAttributes: &authorizationv1.ResourceAttributes{
		Verb: verb, Group: gr.Group, Resource: gr.Resource, Subresource: sub, Namespace: namespace, Name: name,
	}}}
}

// TestAReviewSaysWhatSearchAnswers sends the requests, too, which a review asks about.
func TestAReviewSaysWhatSearchAnswers(t *testing.T) {
	c := newCluster(t)
	c.allow(t, "everywhere", "", rule("list", "*"), rule("get", "pods"))
	c.allow(t, "inside", "default", rule("list", "pods"), rule("get", "pods"))
	c.allow(t, "one", "default", rule("list", "pods", "web-2"), rule("get", "pods", "web-2"))
	c.grant(nil, append(maySend("everywhere", "inside", "one", "granted", "kind", "nobody"), "granted list resources east", "granted get resources east",
		"kind list resources/pods west", "kind watch resources/pods west")...)
	for _, test := range []struct {
		user, cluster, verb, resource, namespace, name string
		allowed                                        bool
	}{
		{"everywhere", "west", "list", "pods", "", "", true},
		{"everywhere", "west", "list", "deployments.apps", "default", "", true},
		{"everywhere", "west", "get", "pods", "default", "web-1", true},
		{"everywhere", "west", "get", "deployments.apps", "default", "web", false},
		{"everywhere", "west", "watch", "pods", "", "", false},
		{"everywhere", "west", "list", "*", "", "", true},
		{"everywhere", "west", "*", "pods", "", "", false},
		{"everywhere", "west", "delete", "pods", "default", "web-1", false},
		{"everywhere", "west", "get", "pods/log", "default", "web-1", false},
		{"inside", "west", "list", "pods", "default", "", true},
		{"inside", "west", "list", "pods", "other", "", false},
		{"inside", "west", "get", "pods", "other", "web-1", false},
		{"inside", "west", "list", "nodes", "", "", false},
		{"inside", "", "list", "pods", "", "", true},
		{"inside", "", "list", "nodes", "", "", false},
		{"one", "west", "get", "pods", "default", "web-2", true},
		{"one", "west", "get", "pods", "default", "web-1", false},
		{"one", "west", "get", "pods", "default", "", false},
		{"granted", "east", "list", "deployments.apps", "", "", true},
		{"granted", "east", "get", "deployments.apps", "default", "web", true},
		{"granted", "east", "watch", "deployments.apps", "", "", false},
		{"granted", "west", "list", "pods", "", "", false},
		{"kind", "west", "list", "pods", "", "", true},
		{"kind", "west", "list", "nodes", "", "", false},
		{"nobody", "west", "list", "pods", "", "", false},
	} {
		what := fmt.Sprintf("%s: %s %s %s/%s in %q", test.user, test.verb, test.resource, test.namespace, test.name, test.cluster)
		where := ""
		if test.cluster != "" {
			where = "/clusters/" + test.cluster
		}
		review := asks(test.verb, test.resource, test.namespace, test.name)
		mediaType := runtime.ContentTypeJSON
		if len(what)%2 == 0 {
			mediaType = runtime.ContentTypeProtobuf
		}
		answer := c.reviewed(t, test.user, where, "selfsubjectaccessreviews", mediaType, review)
		if !assert.Equal(t, http.StatusCreated, answer.Code, "%s: %s", what, answer.Body) {
			continue
		}
		assert.Equal(t, test.allowed, review.Status.Allowed, "%s: %s", what, review.Status.Reason)
		if test.resource == "*" || test.verb != "list" && (test.verb != "get" || test.name == "" || strings.Contains(test.resource, "/")) {
			continue
		}
		gr := schema.ParseGroupResource(test.resource)
		path := "resources" + where + "/api/v1"
		if gr.Group != "" {
			path = "resources" + where + "/apis/" + gr.Group + "/v1"
		}
		if test.namespace != "" {
			path += "/namespaces/" + test.namespace
		}
		path = strings.TrimSuffix(path+"/"+gr.Resource+"/"+test.name, "/")
		got, _ := c.as(t, test.user, path)
		assert.Equal(t, test.allowed, got.Code != http.StatusForbidden, "%s: the request itself gets %d", what, got.Code)
	}
}

func TestReviewsAreRefused(t *testing.T) {
	c := newCluster(t)
	policy, err := rights.Policy{Home: true}.Encode()
	require.NoError(t, err)
	require.NoError(t, c.SetRights(t.Context(), "west", policy)) // so search knows all grants of the hub
	c.allow(t, "inside", "default", rule("list", "pods"))
	require.NoError(t, c.rights.Refresh(t.Context()))
	c.grant(nil, maySend("inside")...)
	const resource = "selfsubjectaccessreviews"
	assert.Equal(t, http.StatusForbidden, c.reviewed(t, "stranger", "/clusters/west", resource, runtime.ContentTypeJSON, asks("list", "pods", "", "")).Code)
	for _, hidden := range []string{"east", "nowhere"} {
		answer := c.reviewed(t, "inside", "/clusters/"+hidden, resource, runtime.ContentTypeJSON, asks("list", "pods", "", ""))
		assert.Equal(t, http.StatusNotFound, answer.Code)
		assert.Contains(t, answer.Body.String(), fmt.Sprintf(`cluster \"%s\" is not searched`, hidden))
	}
	answer := c.reviewed(t, "inside", "/clusters/west", resource, runtime.ContentTypeJSON, &authorizationv1.SelfSubjectAccessReview{})
	assert.Equal(t, http.StatusUnprocessableEntity, answer.Code, answer.Body)
	large := asks("list", "pods", strings.Repeat("x", 70_000), "")
	assert.Equal(t, http.StatusRequestEntityTooLarge, c.reviewed(t, "inside", "/clusters/west", resource, runtime.ContentTypeJSON, large).Code)
	answer = c.reviewed(t, "inside", "/clusters/west", "selfsubjectrulesreviews", runtime.ContentTypeJSON, &authorizationv1.SelfSubjectRulesReview{})
	assert.Equal(t, http.StatusBadRequest, answer.Code)

	req := httptest.NewRequest(http.MethodPost, "/apis/clusterpedia.io/v1beta1/resources/clusters/west/apis/authorization.k8s.io/v1/"+resource, strings.NewReader("{"))
	req.Header.Set("Content-Type", "application/json")
	recorder := httptest.NewRecorder()
	c.send(t, "inside", req, recorder)
	assert.Equal(t, http.StatusBadRequest, recorder.Code)
}

func TestRulesOfAReview(t *testing.T) {
	c := newCluster(t)
	policy, err := rights.Policy{Home: true}.Encode()
	require.NoError(t, err)
	require.NoError(t, c.SetRights(t.Context(), "west", policy))
	c.allow(t, "inside", "default", rule("list", "pods"), rule("*", "configmaps"), rule("create", "secrets"), rule("get", "pods/log"), rule("get", "nodes", "n"))
	c.allow(t, "everywhere", "", rule("watch", "*"))
	eastern := rule("list", "resources", "east")
	eastern.APIGroups = []string{"clusterpedia.io"}
	kind := rule("get", "resources/deployments.apps")
	kind.APIGroups = eastern.APIGroups
	c.allow(t, "granted", "", eastern, kind)
	require.NoError(t, c.rights.Refresh(t.Context()))
	c.grant(nil, append(maySend("inside", "everywhere", "granted", "admin"), "granted list resources east", "admin list resources east", "admin get resources east", "admin watch resources east")...)
	for _, test := range []struct {
		user, cluster, namespace string
		want                     []string
	}{
		{"inside", "west", "default", []string{"list * pods ", "get,list,watch * configmaps ", "get * nodes n"}},
		{"inside", "west", "other", nil},
		{"everywhere", "west", "other", []string{"watch * * "}},
		{"granted", "east", "default", []string{"list * * ", "list * * ", "get apps deployments "}}, // of the policy, and of the RBAC that it has
		{"granted", "west", "default", []string{"list clusterpedia.io resources east", "get apps deployments "}},
		{"admin", "east", "default", []string{"get,list,watch * * "}},
	} {
		review := &authorizationv1.SelfSubjectRulesReview{Spec: authorizationv1.SelfSubjectRulesReviewSpec{Namespace: test.namespace}}
		answer := c.reviewed(t, test.user, "/clusters/"+test.cluster, "selfsubjectrulesreviews", runtime.ContentTypeJSON, review)
		require.Equal(t, http.StatusCreated, answer.Code, answer.Body)
		var got []string
		for _, r := range review.Status.ResourceRules {
			list := func(values []string) string { return strings.Join(values, ",") }
			got = append(got, fmt.Sprintf("%s %s %s %s", list(r.Verbs), list(r.APIGroups), list(r.Resources), list(r.ResourceNames)))
		}
		assert.Equal(t, test.want, got, "%s in %s of %s", test.user, test.namespace, test.cluster)
		assert.False(t, review.Status.Incomplete, review.Status.EvaluationError)
		assert.NotEmpty(t, review.Status.NonResourceRules)
	}
}

func TestWhoAmI(t *testing.T) {
	c := newCluster(t)
	c.grant(nil, maySend("alice")...)
	who := &authenticationv1.SelfSubjectReview{}
	answer := c.reviewed(t, "alice", "/clusters/west", "selfsubjectreviews", runtime.ContentTypeJSON, who)
	require.Equal(t, http.StatusCreated, answer.Code, answer.Body)
	assert.Equal(t, "alice", who.Status.UserInfo.Username)
}

func TestTheVersionIsThatOfTheCluster(t *testing.T) {
	s := newStore(t)
	h := NewHandler(s, nil, http.NotFoundHandler())
	version := func(path string) string {
		answer, _ := ask(t, h, http.MethodGet, path, "")
		require.Equal(t, http.StatusOK, answer.Code, answer.Body)
		var v struct{ GitVersion string }
		require.NoError(t, json.Unmarshal(answer.Body.Bytes(), &v))
		return v.GitVersion
	}
	require.NoError(t, s.PutVersion(t.Context(), "east", []byte(`{"major":"1","minor":"33","gitVersion":"v1.33.1"}`)))
	assert.Equal(t, "v1.33.1", version("resources/clusters/east/version"))
	assert.NotEqual(t, "v1.33.1", version("resources/clusters/west/version"), "the cluster has not answered yet")
	assert.NotEqual(t, "v1.33.1", version("resources/version"))
	require.NoError(t, s.RemoveSchemas(t.Context(), "east", nil))
	assert.Equal(t, "v1.33.1", version("resources/clusters/east/version"))
	answer, _ := ask(t, h, http.MethodGet, "resources/clusters/east/openapi/v3", "")
	assert.JSONEq(t, `{"paths":{}}`, answer.Body.String())
	for path, code := range map[string]int{"resources/clusters/none/version": 404, "resources/clusters/east/healthz": 200, "resources/clusters/east/metrics": 404} {
		answer, _ := ask(t, h, http.MethodGet, path, "")
		assert.Equal(t, code, answer.Code, path)
	}
}

func TestLogsAreAtTheClusterItself(t *testing.T) {
	h := NewHandler(newStore(t), nil, http.NotFoundHandler())
	for method, path := range map[string]string{
		http.MethodGet:  "resources/clusters/west/api/v1/namespaces/default/pods/web-1/log",
		http.MethodPost: "resources/clusters/west/api/v1/namespaces/default/pods/web-1/exec?command=sh",
	} {
		answer, _ := ask(t, h, method, path, "")
		assert.Equal(t, http.StatusMethodNotAllowed, answer.Code)
		assert.Contains(t, answer.Body.String(), `"reason":"MethodNotAllowed"`)
		assert.Contains(t, answer.Body.String(), "ask cluster west itself")
	}
}
