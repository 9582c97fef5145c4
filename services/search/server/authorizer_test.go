// Copyright The Tripod Authors.
// SPDX-License-Identifier: Apache-2.0

package server

import (
	"context"
	"net/http"
	"net/http/httptest"
	"net/url"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/sets"
	"k8s.io/apiserver/pkg/authentication/user"
	"k8s.io/apiserver/pkg/authorization/authorizer"
	genericapifilters "k8s.io/apiserver/pkg/endpoints/filters"
	"k8s.io/apiserver/pkg/endpoints/request"
	genericapiserver "k8s.io/apiserver/pkg/server"

	"github.com/tripod-k8s/tripod/services/search/rights"
)

// rules allows what it lists: "VERB RESOURCE NAME", and notes what it was asked.
type rules struct{ allowed, asked []string }

func (r *rules) Authorize(_ context.Context, a authorizer.Attributes) (authorizer.Decision, string, error) {
	what := a.GetResource()
	if a.GetSubresource() != "" {
		what += "/" + a.GetSubresource()
	}
	if !a.IsResourceRequest() {
		what = a.GetPath()
	} else if a.GetAPIGroup() != "clusterpedia.io" || a.GetUser().GetName() != "jane" {
		what = "unexpected " + what
	}
	question := strings.TrimSpace(a.GetVerb() + " " + what + " " + a.GetName())
	r.asked = append(r.asked, question)
	if slices.Contains(r.allowed, question) {
		return authorizer.DecisionAllow, "", nil
	}
	return authorizer.DecisionNoOpinion, "", nil
}

func TestThePolicyOfTheHubDecidesAboutClusters(t *testing.T) {
	none := rights.New(newStore(t))
	const below = "/apis/clusterpedia.io/v1beta1/resources"
	for name, test := range map[string]struct {
		method, path string
		allowed      []string
		want         bool
		asked        []string
	}{
		"a cluster as a whole":            {path: "/clusters/east/apis/apps/v1/deployments", allowed: []string{"list resources east"}, want: true, asked: []string{"list resources east"}},
		"a resource of a cluster":         {path: "/clusters/east/apis/apps/v1/deployments", allowed: []string{"list resources/deployments.apps east"}, want: true},
		"a resource of the core group":    {path: "/clusters/east/api/v1/namespaces/a/pods", allowed: []string{"list resources/pods east"}, want: true},
		"an object":                       {path: "/clusters/east/api/v1/namespaces/a/pods/x", allowed: []string{"get resources/pods east"}, want: true},
		"another verb":                    {path: "/clusters/east/api/v1/namespaces/a/pods/x", allowed: []string{"list resources/pods east", "list resources east"}},
		"a watch":                         {path: "/clusters/east/api/v1/pods?watch=true", allowed: []string{"watch resources east"}, want: true},
		"a watch is no list":              {path: "/clusters/east/api/v1/pods?watch=1", allowed: []string{"list resources east"}},
		"another cluster":                 {path: "/clusters/west/api/v1/pods", allowed: []string{"list resources east"}},
		"all clusters":                    {path: "/api/v1/pods", allowed: []string{"list resources"}, want: true},
		"one cluster is not all":          {path: "/api/v1/pods", allowed: []string{"list resources east"}},
		"clusters by name":                {path: "/api/v1/pods?clusters=east,west", allowed: []string{"list resources east", "list resources/pods west"}, want: true},
		"clusters by label":               {path: "/api/v1/pods?labelSelector=search.clusterpedia.io/clusters+in+(east,west),a%3Db", allowed: []string{"list resources east", "list resources west"}, want: true},
		"one of the clusters is not":      {path: "/api/v1/pods?clusters=east,west", allowed: []string{"list resources east"}},
		"all clusters but one":            {path: "/api/v1/pods?labelSelector=search.clusterpedia.io/clusters+notin+(west)", allowed: []string{"list resources east"}},
		"a write":                         {method: http.MethodDelete, path: "/clusters/east/api/v1/namespaces/a/pods/x", allowed: []string{"get resources east"}, asked: []string{"delete resources east", "delete resources/pods east"}},
		"a resource named like its group": {path: "/clusters/east/apis/clusterpedia.io/v1beta1/resources", allowed: []string{"list resources"}, asked: []string{"list resources east", "list resources/resources.clusterpedia.io east"}},
		"discovery is as elsewhere":       {path: "/clusters/east/apis", allowed: []string{"get " + below + "/clusters/east/apis"}, want: true},
	} {
		t.Run(name, func(t *testing.T) {
			if test.method == "" {
				test.method = http.MethodGet
			}
			req := httptest.NewRequest(test.method, below+test.path, nil)
			info, err := infos.NewRequestInfo(req)
			require.NoError(t, err)
			ctx := request.WithRequestInfo(request.WithUser(t.Context(), &user.DefaultInfo{Name: "jane"}), RequestInfo(req, info))
			attributes, err := genericapifilters.GetAuthorizerAttributes(ctx)
			require.NoError(t, err)
			policy := &rules{allowed: test.allowed}
			decision, reason, err := NewAuthorizer(policy, none).Authorize(ctx, attributes)
			require.NoError(t, err)
			assert.Equal(t, test.want, decision == authorizer.DecisionAllow, "asked %q", policy.asked)
			if !test.want {
				assert.Contains(t, reason, "needs a role with verb")
			}
			if test.asked != nil {
				assert.Equal(t, test.asked, policy.asked)
			}
		})
	}
}

func TestANestedRequestIsWhatItIs(t *testing.T) {
	for path, want := range map[string]request.RequestInfo{
		"/apis/clusterpedia.io/v1beta1/resources/apis/apps/v1/namespaces/a/deployments":                  {IsResourceRequest: true, Verb: "list", APIPrefix: "apis", APIGroup: "apps", APIVersion: "v1", Namespace: "a", Resource: "deployments"},
		"/apis/clusterpedia.io/v1beta1/resources/clusters/c/api/v1/pods?watch=true":                      {IsResourceRequest: true, Verb: "watch", APIPrefix: "api", APIVersion: "v1", Resource: "pods"},
		"/apis/clusterpedia.io/v1beta1/resources/clusters/c/api/v1/nodes/n":                              {IsResourceRequest: true, Verb: "get", APIPrefix: "api", APIVersion: "v1", Resource: "nodes", Name: "n"},
		"/apis/clusterpedia.io/v1beta1/resources/clusters/c/api/v1/pods?fieldSelector=metadata.name%3Dx": {IsResourceRequest: true, Verb: "list", APIPrefix: "api", APIVersion: "v1", Resource: "pods"},
		"/apis/clusterpedia.io/v1beta1/resources/apis/apps":                                              {Verb: "get"},
	} {
		req := httptest.NewRequest(http.MethodGet, path, nil)
		outer, err := infos.NewRequestInfo(req)
		require.NoError(t, err)
		got := RequestInfo(req, outer)
		got.Parts = nil
		want.Path = req.URL.Path
		assert.Equal(t, &want, got, path)
	}
	req := httptest.NewRequest(http.MethodGet, "/apis/clusterpedia.io/v1beta1/collectionresources/any", nil)
	outer, err := infos.NewRequestInfo(req)
	require.NoError(t, err)
	assert.Same(t, outer, RequestInfo(req, outer))
}

// TestTheServerAnswersNestedRequests holds that the configuration of the server has all parts: reading, noting, deciding and answering.
func TestTheServerAnswersNestedRequests(t *testing.T) {
	s := newStore(t)
	of := rights.New(s)
	policy := &rules{allowed: []string{"list resources"}}
	config := &genericapiserver.Config{LegacyAPIGroupPrefixes: sets.NewString("api")}
	config.Authorization.Authorizer = authorizer.AuthorizerFunc(policy.Authorize)
	config.BuildHandlerChainFunc = func(served http.Handler, c *genericapiserver.Config) http.Handler {
		return http.HandlerFunc(func(w http.ResponseWriter, req *http.Request) {
			info, err := c.RequestInfoResolver.NewRequestInfo(req)
			require.NoError(t, err)
			ctx := request.WithRequestInfo(request.WithUser(req.Context(), &user.DefaultInfo{Name: "jane"}), info)
			attributes, err := genericapifilters.GetAuthorizerAttributes(ctx)
			require.NoError(t, err)
			decision, _, err := c.Authorization.Authorizer.Authorize(ctx, attributes)
			require.NoError(t, err)
			assert.Equal(t, authorizer.DecisionAllow, decision)
			assert.NotNil(t, nestedOf(ctx, info.Path), "it is state")
			served.ServeHTTP(w, req.WithContext(ctx))
		})
	}
	configureNested(config, of, NewHandler(s, of, http.NotFoundHandler()).before)
	chain := config.BuildHandlerChainFunc(http.NotFoundHandler(), config)
	answer := httptest.NewRecorder()
	chain.ServeHTTP(answer, httptest.NewRequest(http.MethodGet, "/apis/clusterpedia.io/v1beta1/resources/api/v1/pods", nil))
	assert.NotEqual(t, http.StatusNotFound, answer.Code, "the handler of search answers, and not what is served besides: %s", answer.Body)
	assert.Equal(t, []string{"list resources"}, policy.asked)
}

// TestClustersOfAQueryAreThoseOfTheWholeQuery has parameters that only together make sense.
func TestClustersOfAQueryAreThoseOfTheWholeQuery(t *testing.T) {
	for text, want := range map[string]string{
		"clusters=a,b": clustersLabel + " in (a,b)",
		"clusters=a&labelSelector=search.clusterpedia.io/owner-gr%3Ddeployments.apps&ownerName=web": clustersLabel + " in (a)",
		"labelSelector=search.clusterpedia.io/clusters%3Da":                                         clustersLabel + " in (a)",
		"ownerName=web": "",
	} {
		values, err := url.ParseQuery(text)
		require.NoError(t, err)
		assert.Equal(t, want, clustersOf(values), text)
	}
}

// TestAPathIsReadOnce holds that the authorizer and the handler get what RequestInfo has read, for the same path only.
func TestAPathIsReadOnce(t *testing.T) {
	ctx := withRequestState(t.Context())
	path := "/apis/clusterpedia.io/v1beta1/resources/clusters/east/api/v1/namespaces/a/pods"
	req := httptest.NewRequestWithContext(ctx, http.MethodDelete, path+"?watch=true", nil)
	outer, err := infos.NewRequestInfo(req)
	require.NoError(t, err)
	info := RequestInfo(req, outer)
	n := nestedOf(ctx, path)
	require.NotNil(t, n)
	assert.Same(t, info, n.Info)
	assert.Equal(t, "east", n.Cluster)
	assert.Nil(t, nestedOf(ctx, strings.Replace(path, "east", "west", 1)))
	assert.Nil(t, nestedOf(ctx, ""))
	assert.Nil(t, nestedOf(t.Context(), path), "without WithRequestState")

	answer := httptest.NewRecorder()
	NewHandler(newStore(t), nil, http.NotFoundHandler()).ServeHTTP(answer, httptest.NewRequest(http.MethodGet, path, nil))
	assert.Contains(t, answer.Body.String(), "404 page not found", "the handler reads no path")
}

func TestAPathHasOneClass(t *testing.T) {
	for path, want := range map[string]Nested{
		"resources/apis/apps/v1/deployments":                                              {class: classObjects},
		"resources/clusters/a/api/v1/nodes/n":                                             {class: classObjects},
		"resources/clusters/a/api/v1/namespaces/x/pods/p/relations":                       {class: classRelations},
		"resources/clusters/a/api/v1/namespaces/x/relations":                              {class: classRelations},
		"resources/clusters/a/api/v1/namespaces/x/pods/p/log":                             {class: classSubresource},
		"resources/clusters/a/apis/authorization.k8s.io/v1/selfsubjectaccessreviews":      {class: classReview},
		"resources/clusters/a/apis/authorization.k8s.io/v1/selfsubjectaccessreviews/name": {class: classObjects},
		"collectionresources/any":                                                         {class: classCollection, collection: "any"},
		"resources/clusters":                                                              {class: classClusters},
		"resources/clusters/":                                                             {class: classClusters},
		"resources/clusters//api/v1/pods":                                                 {class: classClusters},
		"resources/clusters/a/clusters":                                                   {class: classOther},
		"resources/openapi/v3":                                                            {class: classOpenAPI},
		"resources/clusters/a/openapi/v3/apis/apps/v1":                                    {class: classOpenAPI, document: "apis/apps/v1"},
		"resources/openapi/v31":                                                           {class: classOther},
		"resources/api":                                                                   {class: classDiscovery, discovered: discovered{core: true}},
		"resources/clusters/a/api/v1": {
			class: classDiscovery, discovered: discovered{true, schema.GroupVersion{Version: "v1"}},
		},
		"resources/clusters/a/apis/": {class: classDiscovery},
		"resources/apis/apps":        {class: classDiscovery, discovered: discovered{GroupVersion: schema.GroupVersion{Group: "apps"}}},
		"resources/apis/apps/v1": {
			class: classDiscovery, discovered: discovered{GroupVersion: schema.GroupVersion{Group: "apps", Version: "v1"}},
		},
		"resources/apis//v1":           {class: classOther},
		"resources/version":            {class: classVersion},
		"resources/clusters/a/healthz": {class: classHealth},
		"resources/":                   {class: classOther},
		"resources/clusters/a":         {class: classOther},
		"resources/metrics":            {class: classOther},
	} {
		n := nestedIn(http.MethodGet, "/apis/clusterpedia.io/v1beta1/"+path, false)
		if assert.NotNil(t, n, path) {
			got := Nested{class: n.class, collection: n.collection, document: n.document, discovered: n.discovered}
			assert.Equal(t, want, got, path)
		}
	}
	for _, path := range []string{"resources", "collectionresources", "collectionresources/", "collectionresources/any/x"} {
		assert.Nil(t, nestedIn(http.MethodGet, "/apis/clusterpedia.io/v1beta1/"+path, false), path)
	}
	assert.Nil(t, nestedIn(http.MethodPost, "/apis/clusterpedia.io/v1beta1/collectionresources/any", false))
}
