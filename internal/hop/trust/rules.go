// Copyright The Tripod Authors.
// SPDX-License-Identifier: Apache-2.0

package trust

import (
	"slices"

	rbacv1 "k8s.io/api/rbac/v1"
)

// Grant is a right of a service in its own name, and the reason for it.
type Grant struct {
	Rule rbacv1.PolicyRule
	Why  string
}

// Services returns the user names of all services that have rights, with AnyOther for further API services.
func Services() []string { return append(slices.Clone(services), AnyOther) }

// Grants returns all rights of a service in its own name. service is a user name. docs/secure.md lists the rights.
func Grants(service string) []Grant { return slices.Clone(grants[grantee(service)]) }

// grantee returns the user name that grants has for a service.
func grantee(service string) string {
	if slices.Contains(services, service) || !isService(service) {
		return service
	}
	return AnyOther
}

// Verbs of rules.
var (
	read = []string{"get", "list", "watch"}
	// follow has the verbs that an informer needs.
	follow = []string{"list", "watch"}
	get    = []string{"get"}
	create = []string{"create"}
	update = []string{"update"}
	patch  = []string{"patch"}
)

func resources(verbs []string, group string, names ...string) rbacv1.PolicyRule {
	return rbacv1.PolicyRule{Verbs: verbs, APIGroups: []string{group}, Resources: names}
}

// named limits a rule to objects of these names.
func named(rule rbacv1.PolicyRule, names ...string) rbacv1.PolicyRule {
	rule.ResourceNames = names
	return rule
}

func paths(verbs []string, paths ...string) rbacv1.PolicyRule {
	return rbacv1.PolicyRule{Verbs: verbs, NonResourceURLs: paths}
}

// grants lists the rights of services in their own name, by user name. Every service evaluates the whole list, so a rule applies wherever a
// resource is served.
var grants = map[string][]Grant{
	Aggregator: {
		{readPolicy, "the aggregator authorizes requests for APIServices, and for aggregated API servers, by the policy of core"},
		{resources(follow, "", "services"), "an APIService names the Service of an aggregated API server"},
		{resources(follow, "discovery.k8s.io", "endpointslices"), "the aggregator sends requests to the endpoints of that Service"},
		{readAdmission, "webhooks and policies apply to APIServices too; core and extensions may call aggregated API servers at the paths of " +
			"webhooks only"},
		readFlowControl, writeFlowControlStatus, askOfNodes,
		{paths(get, "/apis", "/openapi/*"), "the aggregator merges discovery and OpenAPI of the backends"},
		{paths(get, "/", "/healthz", "/healthz/*", "/livez", "/livez/*", "/readyz", "/readyz/*", "/metrics"),
			"the aggregator sends requests to ready replicas"},
	},
	Extensions: {
		{readPolicy, "extensions authorizes requests for custom resources by the policy of core"},
		{resources(read, "", "namespaces"), "an object needs its namespace to exist, and webhooks and policies select namespaces by their " +
			"labels"},
		{resources(create, "", "namespaces"), "the admission plugin NamespaceAutoProvision creates namespaces, if it is on"},
		{resources(follow, "", "services"), "the configuration of a webhook names a Service"},
		{resources(follow, "discovery.k8s.io", "endpointslices"), "extensions calls webhooks at the endpoints of that Service"},
		{readAdmission, "webhooks and policies apply to custom resources as to built-in ones"},
		{resources(follow, "", "resourcequotas"), "custom resources count against the quotas of their namespace"},
		{resources(update, "", "resourcequotas/status"), "the admission plugin ResourceQuota writes there what custom resources use"},
		readFlowControl, writeFlowControlStatus, askOfNodes,
		{paths(get, "/readyz"), "extensions follows a replica of core that is ready"},
		{paths(get, discoveryPaths...), "admission policies find resources by discovery, and apply patches by OpenAPI schemas"},
	},
	AnyOther: further,
	Search: append(slices.Clone(further),
		Grant{resources(follow, "*", "*"), "search copies the objects of the cluster, except for Secrets and subresources, which this rule " +
			"leaves out"},
		Grant{named(resources([]string{"create", "patch"}, "apiextensions.k8s.io", "customresourcedefinitions"),
			"pediaclusters.cluster.clusterpedia.io", "clustersyncresources.cluster.clusterpedia.io",
			"clusterimportpolicies.policy.clusterpedia.io", "pediaclusterlifecycles.policy.clusterpedia.io"), "search defines its own kinds"},
		Grant{resources(patch, "cluster.clusterpedia.io", "pediaclusters/status"), "search tells there how the clusters are that it copies"},
		Grant{resources([]string{"get", "create", "patch", "delete"}, "cluster.clusterpedia.io", "pediaclusters"),
			"a ClusterImportPolicy makes PediaClusters of other objects"},
		Grant{resources([]string{"get", "create", "update", "delete"}, "policy.clusterpedia.io", "pediaclusterlifecycles"),
			"a ClusterImportPolicy makes a PediaClusterLifecycle for each of them"},
		Grant{resources(get, "policy.clusterpedia.io", "clusterimportpolicies"),
			"what a ClusterImportPolicy has made goes only after it is really gone"},
		Grant{resources(patch, "policy.clusterpedia.io", "clusterimportpolicies/status", "pediaclusterlifecycles/status"),
			"search tells there how far it is"},
	),
	Core: {
		{resources(read, "*", "*"),
			"admission policies may take parameters of any kind; core reads its own kinds without this right"},
		{paths(get, "/apis", "/apis/*"), "admission finds resources by discovery"},
	},
}

// further are the rights of each further API service.
var further = []Grant{
	{resources(read, "", "namespaces"), "an object needs its namespace to exist, and webhooks and policies select namespaces by their labels"},
	{resources(follow, "", "services"), "the configuration of a webhook names a Service"},
	{resources(follow, "discovery.k8s.io", "endpointslices"), "an API service calls webhooks at the endpoints of that Service"},
	{readAdmission, "webhooks and policies apply to its objects as to built-in ones"},
	readFlowControl, writeFlowControlStatus,
	{ask, "an API service asks core what the aggregator does not say about a request, such as whether a user may impersonate another one"},
	{paths(get, "/readyz"), "an API service follows a replica of core that is ready"},
	{paths(get, discoveryPaths...), "admission policies find resources by discovery, and apply patches by OpenAPI schemas"},
}

var (
	// readPolicy is for authorizers.
	readPolicy = resources(follow, rbacv1.GroupName, "roles", "rolebindings", "clusterroles", "clusterrolebindings")

	// readAdmission is for admission plugins.
	readAdmission = resources(follow, "admissionregistration.k8s.io",
		"mutatingwebhookconfigurations", "validatingwebhookconfigurations",
		"mutatingadmissionpolicies", "mutatingadmissionpolicybindings",
		"validatingadmissionpolicies", "validatingadmissionpolicybindings",
	)

	readFlowControl = Grant{
		resources(follow, "flowcontrol.apiserver.k8s.io", "flowschemas", "prioritylevelconfigurations"),
		"API Priority and Fairness follows its configuration",
	}
	writeFlowControlStatus = Grant{
		resources(patch, "flowcontrol.apiserver.k8s.io", "flowschemas/status"),
		"API Priority and Fairness reports dangling references there",
	}

	ask        = resources(create, "authorization.k8s.io", "subjectaccessreviews")
	askOfNodes = Grant{
		ask,
		"the CEL of an admission policy may ask what a node may do, and only core knows which pods run there",
	}

	discoveryPaths = []string{"/api", "/api/*", "/apis", "/apis/*", "/openapi", "/openapi/*", "/version", "/version/"}
)

// serviceRules are the RBAC rules of grants.
var serviceRules = rulesOf(grants)

func rulesOf(grants map[string][]Grant) map[string][]rbacv1.PolicyRule {
	rules := map[string][]rbacv1.PolicyRule{}
	for service, list := range grants {
		rules[service] = []rbacv1.PolicyRule{}
		for _, g := range list {
			rules[service] = append(rules[service], g.Rule)
		}
	}
	return rules
}
