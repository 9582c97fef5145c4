// Copyright The Tripod Authors.
// SPDX-License-Identifier: Apache-2.0

package list

import (
	"testing"

	"github.com/stretchr/testify/assert"

	"k8s.io/apiserver/pkg/authorization/authorizer"

	"github.com/tripod-k8s/tripod/base/hop/trust"
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

func TestRights(t *testing.T) {
	// wardle is an API service of others.
	aggregator, core, extensions, search, wardle := Aggregator, Core, Extensions, Search, "wardle"
	partition := extensions + "-big"
	tests := []struct {
		name    string
		user    string
		request authorizer.AttributesRecord
		allowed bool
	}{
		{"the aggregator checks no tokens", aggregator, resource("create", "authentication.k8s.io", "tokenreviews"), false},
		{"the aggregator watches role bindings", aggregator, resource("watch", "rbac.authorization.k8s.io", "rolebindings"), true},
		{"the aggregator does not write role bindings", aggregator, resource("create", "rbac.authorization.k8s.io", "rolebindings"), false},
		{"the aggregator watches Services", aggregator, resource("watch", "", "services"), true},
		{"the aggregator lists EndpointSlices", aggregator, resource("list", "discovery.k8s.io", "endpointslices"), true},
		{"the aggregator does not watch CRDs", aggregator, resource("watch", "apiextensions.k8s.io", "customresourcedefinitions"), false},
		{"the aggregator reads discovery", aggregator, path("get", "/apis"), true},
		{"the aggregator reads no discovery of a group", aggregator, path("get", "/apis/apps/v1"), false},
		{"the aggregator reads OpenAPI", aggregator, path("get", "/openapi/v3/apis/apps/v1"), true},
		{"the aggregator probes", aggregator, path("get", "/readyz"), true},
		{"the aggregator does not write CRDs", aggregator, resource("update", "apiextensions.k8s.io", "customresourcedefinitions"), false},
		{"the aggregator does not read Secrets", aggregator, resource("get", "", "secrets"), false},
		{"the aggregator does not read ConfigMaps", aggregator, resource("list", "", "configmaps"), false},
		{"the aggregator asks what nodes may do", aggregator, resource("create", "authorization.k8s.io", "subjectaccessreviews"), true},
		{"the aggregator does not ask what it may do itself", aggregator, resource("create", "authorization.k8s.io", "selfsubjectaccessreviews"), false},
		{"the aggregator does not impersonate", aggregator, resource("impersonate", "", "users"), false},
		{"the aggregator does not post to discovery", aggregator, path("post", "/apis"), false},

		{"a partition watches cluster roles", partition, resource("watch", "rbac.authorization.k8s.io", "clusterroles"), true},
		{"a partition tells the status of CRDs", partition, subresource("update", "apiextensions.k8s.io", "customresourcedefinitions", "status"), true},
		{"a partition does not write CRDs", partition, resource("update", "apiextensions.k8s.io", "customresourcedefinitions"), false},
		{"a partition does not read Secrets", partition, resource("get", "", "secrets"), false},
		{"an API service with a similar name is none", "extensionsbig", resource("watch", "rbac.authorization.k8s.io", "clusterroles"), false},
		{"extensions does not tell the status of CRDs", extensions, subresource("update", "apiextensions.k8s.io", "customresourcedefinitions", "status"),
			false},

		{"extensions watches cluster roles", extensions, resource("watch", "rbac.authorization.k8s.io", "clusterroles"), true},
		{"extensions does not bind roles", extensions, resource("bind", "rbac.authorization.k8s.io", "clusterroles"), false},
		{"extensions asks what nodes may do", extensions, resource("create", "authorization.k8s.io", "subjectaccessreviews"), true},
		{"extensions does not ask for rules", extensions, resource("create", "authorization.k8s.io", "selfsubjectrulesreviews"), false},
		{"extensions gets namespaces", extensions, resource("get", "", "namespaces"), true},
		{"extensions watches webhooks", extensions, resource("watch", "admissionregistration.k8s.io", "validatingwebhookconfigurations"), true},
		{"extensions lists policies", extensions, resource("list", "admissionregistration.k8s.io", "mutatingadmissionpolicies"), true},
		{"extensions lists flow schemas", extensions, resource("list", "flowcontrol.apiserver.k8s.io", "flowschemas"), true},
		{"extensions patches the status of flow schemas", extensions, subresource("patch", "flowcontrol.apiserver.k8s.io", "flowschemas", "status"), true},
		{"extensions does not change flow schemas", extensions, resource("patch", "flowcontrol.apiserver.k8s.io", "flowschemas"), false},
		{"extensions does not check tokens", extensions, resource("create", "authentication.k8s.io", "tokenreviews"), false},
		{"extensions does not write namespaces", extensions, resource("update", "", "namespaces"), false},
		{"extensions does not read Secrets", extensions, resource("list", "", "secrets"), false},

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

		{"search watches custom resources", search, resource("watch", "example.com", "widgets"), true},
		{"search lists pods", search, resource("list", "", "pods"), true},
		{"search watches services", search, resource("watch", "", "services"), true},
		{"search asks who may do what", search, resource("create", "authorization.k8s.io", "subjectaccessreviews"), true},
		{"search does not read Secrets", search, resource("list", "", "secrets"), false},
		{"search does not watch Secrets", search, resource("watch", "", "secrets"), false},
		{"search reads no logs", search, subresource("list", "", "pods", "log"), false},
		{"search defines no kinds of others", search, resource("create", "apiextensions.k8s.io", "customresourcedefinitions"), false},
		{"search tells how clusters are", search, subresource("patch", "cluster.clusterpedia.io", "pediaclusters", "status"), true},
		{"search adds clusters for policies", search, resource("create", "cluster.clusterpedia.io", "pediaclusters"), true},
		{"search writes no policies", search, resource("update", "policy.clusterpedia.io", "clusterimportpolicies"), false},
		{"search tells what it has counted", search, subresource("patch", "search.tripod-k8s.io", "savedsearches", "status"), true},
		{"search saves no searches", search, resource("patch", "search.tripod-k8s.io", "savedsearches"), false},
		{"search writes nothing", search, resource("update", "example.com", "widgets"), false},

		{"core watches custom resources", core, resource("watch", "example.com", "widgets"), true},
		{"core reads no subresources", core, subresource("get", "", "nodes", "proxy"), false},
		{"core writes nothing", core, resource("create", "example.com", "widgets"), false},
		{"core does not impersonate", core, resource("impersonate", "", "users"), false},
		{"core reads discovery", core, path("get", "/apis"), true},
		{"core reads no metrics", core, path("get", "/metrics"), false},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			assert.Equal(t, test.allowed, Rights().Allow(trust.UserOf(test.user), test.request))
		})
	}
}
