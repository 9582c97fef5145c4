// Copyright The Tripod Authors.
// SPDX-License-Identifier: Apache-2.0

package trust

import (
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"k8s.io/apiserver/pkg/authentication/user"
	"k8s.io/apiserver/pkg/authorization/authorizer"
)

func resource(verb, group, name string) authorizer.AttributesRecord {
	return authorizer.AttributesRecord{Verb: verb, APIGroup: group, Resource: name, ResourceRequest: true}
}

func subresource(verb, group, name, sub string) authorizer.AttributesRecord {
	attributes := resource(verb, group, name)
	attributes.Subresource = sub
	return attributes
}

func path(verb, path string) authorizer.AttributesRecord {
	return authorizer.AttributesRecord{Verb: verb, Path: path}
}

// wardle is a further API service.
const wardle = userPrefix + "wardle"

func TestAuthorizer(t *testing.T) {
	tests := []struct {
		name    string
		user    string
		request authorizer.AttributesRecord
		allowed bool
	}{
		{"the aggregator checks no tokens", Aggregator, resource("create", "authentication.k8s.io", "tokenreviews"), false},
		{"the aggregator watches role bindings", Aggregator, resource("watch", "rbac.authorization.k8s.io", "rolebindings"), true},
		{"the aggregator does not write role bindings", Aggregator, resource("create", "rbac.authorization.k8s.io", "rolebindings"), false},
		{"the aggregator watches Services", Aggregator, resource("watch", "", "services"), true},
		{"the aggregator lists EndpointSlices", Aggregator, resource("list", "discovery.k8s.io", "endpointslices"), true},
		{"the aggregator does not watch CRDs", Aggregator, resource("watch", "apiextensions.k8s.io", "customresourcedefinitions"), false},
		{"the aggregator reads discovery", Aggregator, path("get", "/apis"), true},
		{"the aggregator reads no discovery of a group", Aggregator, path("get", "/apis/apps/v1"), false},
		{"the aggregator reads OpenAPI", Aggregator, path("get", "/openapi/v3/apis/apps/v1"), true},
		{"the aggregator probes", Aggregator, path("get", "/readyz"), true},
		{"the aggregator does not write CRDs", Aggregator, resource("update", "apiextensions.k8s.io", "customresourcedefinitions"), false},
		{"the aggregator does not read Secrets", Aggregator, resource("get", "", "secrets"), false},
		{"the aggregator does not read ConfigMaps", Aggregator, resource("list", "", "configmaps"), false},
		{"the aggregator asks what nodes may do", Aggregator, resource("create", "authorization.k8s.io", "subjectaccessreviews"), true},
		{"the aggregator does not ask what it may do itself", Aggregator, resource("create", "authorization.k8s.io", "selfsubjectaccessreviews"), false},
		{"the aggregator does not impersonate", Aggregator, resource("impersonate", "", "users"), false},
		{"the aggregator does not post to discovery", Aggregator, path("post", "/apis"), false},

		{"extensions watches cluster roles", Extensions, resource("watch", "rbac.authorization.k8s.io", "clusterroles"), true},
		{"extensions does not bind roles", Extensions, resource("bind", "rbac.authorization.k8s.io", "clusterroles"), false},
		{"extensions asks what nodes may do", Extensions, resource("create", "authorization.k8s.io", "subjectaccessreviews"), true},
		{"extensions does not ask for rules", Extensions, resource("create", "authorization.k8s.io", "selfsubjectrulesreviews"), false},
		{"extensions gets namespaces", Extensions, resource("get", "", "namespaces"), true},
		{"extensions watches webhooks", Extensions, resource("watch", "admissionregistration.k8s.io", "validatingwebhookconfigurations"), true},
		{"extensions lists policies", Extensions, resource("list", "admissionregistration.k8s.io", "mutatingadmissionpolicies"), true},
		{"extensions lists flow schemas", Extensions, resource("list", "flowcontrol.apiserver.k8s.io", "flowschemas"), true},
		{"extensions patches the status of flow schemas", Extensions, subresource("patch", "flowcontrol.apiserver.k8s.io", "flowschemas", "status"), true},
		{"extensions does not change flow schemas", Extensions, resource("patch", "flowcontrol.apiserver.k8s.io", "flowschemas"), false},
		{"extensions does not check tokens", Extensions, resource("create", "authentication.k8s.io", "tokenreviews"), false},
		{"extensions does not write namespaces", Extensions, resource("update", "", "namespaces"), false},
		{"extensions does not read Secrets", Extensions, resource("list", "", "secrets"), false},

		{"an API service does not read the policy", wardle, resource("watch", "rbac.authorization.k8s.io", "clusterroles"), false},
		{"an API service gets namespaces", wardle, resource("get", "", "namespaces"), true},
		{"an API service reads discovery", wardle, path("get", "/apis"), true},
		{"an API service asks what nodes may do", wardle, resource("create", "authorization.k8s.io", "subjectaccessreviews"), true},
		{"an API service creates no namespaces", wardle, resource("create", "", "namespaces"), false},
		{"an API service reads no quotas", wardle, resource("list", "", "resourcequotas"), false},
		{"an API service changes no quotas", wardle, subresource("update", "", "resourcequotas", "status"), false},
		{"an API service does not read Secrets", wardle, resource("list", "", "secrets"), false},
		{"an API service does not read custom resources", wardle, resource("list", "example.com", "widgets"), false},
		{"an API service does not check tokens", wardle, resource("create", "authentication.k8s.io", "tokenreviews"), false},
		{"an API service does not probe the whole", wardle, path("get", "/metrics"), false},
		{"an API service without a name gets nothing", userPrefix, resource("get", "", "namespaces"), false},

		{"search watches custom resources", Search, resource("watch", "example.com", "widgets"), true},
		{"search lists pods", Search, resource("list", "", "pods"), true},
		{"search watches services", Search, resource("watch", "", "services"), true},
		{"search asks who may do what", Search, resource("create", "authorization.k8s.io", "subjectaccessreviews"), true},
		{"search does not read Secrets", Search, resource("list", "", "secrets"), false},
		{"search does not watch Secrets", Search, resource("watch", "", "secrets"), false},
		{"search reads no logs", Search, subresource("list", "", "pods", "log"), false},
		{"search defines no kinds of others", Search, resource("create", "apiextensions.k8s.io", "customresourcedefinitions"), false},
		{"search tells how clusters are", Search, subresource("patch", "cluster.clusterpedia.io", "pediaclusters", "status"), true},
		{"search adds clusters for policies", Search, resource("create", "cluster.clusterpedia.io", "pediaclusters"), true},
		{"search writes no policies", Search, resource("update", "policy.clusterpedia.io", "clusterimportpolicies"), false},
		{"search writes nothing", Search, resource("update", "example.com", "widgets"), false},

		{"core watches custom resources", Core, resource("watch", "example.com", "widgets"), true},
		{"core reads no subresources", Core, subresource("get", "", "nodes", "proxy"), false},
		{"core writes nothing", Core, resource("create", "example.com", "widgets"), false},
		{"core does not impersonate", Core, resource("impersonate", "", "users"), false},
		{"core reads discovery", Core, path("get", "/apis"), true},
		{"core reads no metrics", Core, path("get", "/metrics"), false},
		{"others get nothing", "jane", resource("get", "", "namespaces"), false},
		{"others do not read discovery by this", "jane", path("get", "/apis"), false},
	}
	a := NewAuthorizer("")
	require.Subset(t, Services(), []string{Core, Extensions, Aggregator, AnyOther})
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			request := test.request
			request.User = &service{user.DefaultInfo{Name: test.user, Groups: []string{user.AllAuthenticated}}}
			decision, reason, err := a.Authorize(t.Context(), request)
			require.NoError(t, err)
			want := authorizer.DecisionNoOpinion
			if test.allowed {
				want = authorizer.DecisionAllow
			}
			assert.Equal(t, want, decision, "decision %v (%s), want %v", decision, reason, want)
		})
	}
}

func TestAuthorizerLeavesTheReasonToOthers(t *testing.T) {
	for _, u := range []user.Info{nil, &user.DefaultInfo{Name: "jane"}, &user.DefaultInfo{Name: Aggregator}} {
		request := resource("list", "", "services")
		request.User = u
		decision, reason, err := NewAuthorizer(Core).Authorize(t.Context(), request)
		if decision != authorizer.DecisionNoOpinion || reason != "" || err != nil {
			t.Errorf("user %v: got (%v, %q, %v)", u, decision, reason, err)
		}
	}
}

func TestAServiceHasNothingToAskOfItself(t *testing.T) {
	request := resource("list", "", "secrets")
	request.User = newService(Core, nil)
	for at, want := range map[string]authorizer.Decision{
		Core: authorizer.DecisionNoOpinion, Extensions: authorizer.DecisionAllow, Aggregator: authorizer.DecisionAllow,
	} {
		if decision, _, err := NewAuthorizer(at).Authorize(t.Context(), request); decision != want || err != nil {
			t.Errorf("core is told %v by %s, error %v; want %v", decision, at, err, want)
		}
	}
}
