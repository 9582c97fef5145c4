// Copyright The Tripod Authors.
// SPDX-License-Identifier: Apache-2.0

package list

import (
	"slices"

	rbacv1 "k8s.io/api/rbac/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/tripod-k8s/tripod/base/hop/trust"
)

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

func grant(rule rbacv1.PolicyRule, why string) trust.Grant { return trust.Grant{Rule: rule, Why: why} }

// The rights of services in their own name. Core, extensions and the aggregator evaluate all of them, so a rule applies wherever a resource
// is served. docs/secure.md has them in a table.
var (
	ofAggregator = slices.Concat([]trust.Grant{
		grant(readPolicy, "the aggregator authorizes requests for APIServices, and for aggregated API servers, by the policy of core"),
		grant(resources(follow, "", "services"), "an APIService names the Service of an aggregated API server"),
		grant(resources(follow, "discovery.k8s.io", "endpointslices"), "the aggregator sends requests to the endpoints of that Service"),
		grant(readAdmission, "webhooks and policies apply to APIServices too; core and extensions may call aggregated API servers at the paths "+
			"of webhooks only"),
		readFlowControl, writeFlowControlStatus, askOfNodes,
	}, trust.AggregatorGrants())

	ofExtensions = []trust.Grant{
		grant(readPolicy, "extensions authorizes requests for custom resources by the policy of core"),
		grant(resources(read, "", "namespaces"), "an object needs its namespace to exist, and webhooks and policies select namespaces by their "+
			"labels"),
		grant(resources(create, "", "namespaces"), "the admission plugin NamespaceAutoProvision creates namespaces, if it is on"),
		grant(resources(follow, "", "services"), "the configuration of a webhook names a Service"),
		grant(resources(follow, "discovery.k8s.io", "endpointslices"), "extensions calls webhooks at the endpoints of that Service"),
		grant(readAdmission, "webhooks and policies apply to custom resources as to built-in ones"),
		grant(resources(follow, "", "resourcequotas"), "custom resources count against the quotas of their namespace"),
		grant(resources(update, "", "resourcequotas/status"), "the admission plugin ResourceQuota writes there what custom resources use"),
		readFlowControl, writeFlowControlStatus, askOfNodes,
		grant(paths(get, "/readyz"), "extensions follows a replica of core that is ready"),
		grant(paths(get, discoveryPaths...), "admission policies find resources by discovery, and apply patches by OpenAPI schemas"),
	}

	// ofPartitions are the rights of each partition of extensions.
	ofPartitions = append(slices.Clone(ofExtensions),
		grant(resources(update, "apiextensions.k8s.io", "customresourcedefinitions/status"), "a partition reports the state of its definitions "+
			"there; the default partition refuses the definitions of others"))

	// ofAPIServices are the rights of each service that is built on package apiservice.
	ofAPIServices = []trust.Grant{
		grant(resources(read, "", "namespaces"),
			"an object needs its namespace to exist, and webhooks and policies select namespaces by their labels"),
		grant(resources(follow, "", "services"), "the configuration of a webhook names a Service"),
		grant(resources(follow, "discovery.k8s.io", "endpointslices"), "an API service calls webhooks at the endpoints of that Service"),
		grant(readAdmission, "webhooks and policies apply to its objects as to built-in ones"),
		readFlowControl, writeFlowControlStatus,
		grant(ask, "an API service asks core what the aggregator has not decided about a request, such as whether a user may impersonate "+
			"another one"),
		grant(paths(get, "/readyz"), "an API service follows a replica of core that is ready"),
		grant(paths(get, discoveryPaths...), "admission policies find resources by discovery, and apply patches by OpenAPI schemas"),
	}

	ofSearch = append(slices.Clone(ofAPIServices),
		trust.Grant{
			Rule:   resources(follow, "*", "*"),
			Why:    "search copies the objects of the cluster, except for Secrets and subresources, which this rule leaves out",
			Except: trust.Except{Subresources: true, Resources: []schema.GroupResource{{Resource: "secrets"}}},
		},
		grant(named(resources([]string{"create", "patch"}, "apiextensions.k8s.io", "customresourcedefinitions"),
			"pediaclusters.cluster.clusterpedia.io", "clustersyncresources.cluster.clusterpedia.io",
			"clusterimportpolicies.policy.clusterpedia.io", "pediaclusterlifecycles.policy.clusterpedia.io",
			"savedsearches.search.tripod-k8s.io"), "search defines its own kinds"),
		grant(resources(patch, "cluster.clusterpedia.io", "pediaclusters/status"), "search reports the state of each cluster there"),
		grant(resources([]string{"get", "create", "patch", "delete"}, "cluster.clusterpedia.io", "pediaclusters"),
			"a ClusterImportPolicy makes PediaClusters of other objects"),
		grant(resources([]string{"get", "create", "update", "delete"}, "policy.clusterpedia.io", "pediaclusterlifecycles"),
			"a ClusterImportPolicy makes a PediaClusterLifecycle for each of them"),
		grant(resources(get, "policy.clusterpedia.io", "clusterimportpolicies"),
			"what a ClusterImportPolicy has made goes only after it is really gone"),
		grant(resources(patch, "policy.clusterpedia.io", "clusterimportpolicies/status", "pediaclusterlifecycles/status"),
			"search reports its progress there"),
		grant(resources(patch, "search.tripod-k8s.io", "savedsearches/status"), "search reports its counts there"),
	)

	ofCore = []trust.Grant{
		{
			Rule:   resources(read, "*", "*"),
			Why:    "admission policies may take parameters of any kind; core reads its own kinds without this right",
			Except: trust.Except{Subresources: true},
		},
		grant(paths(get, "/apis", "/apis/*"), "admission finds resources by discovery"),
	}
)

var (
	// readPolicy is for authorizers.
	readPolicy = resources(follow, rbacv1.GroupName, "roles", "rolebindings", "clusterroles", "clusterrolebindings")

	// readAdmission is for admission plugins.
	readAdmission = resources(follow, "admissionregistration.k8s.io",
		"mutatingwebhookconfigurations", "validatingwebhookconfigurations",
		"mutatingadmissionpolicies", "mutatingadmissionpolicybindings",
		"validatingadmissionpolicies", "validatingadmissionpolicybindings",
	)

	readFlowControl = grant(
		resources(follow, "flowcontrol.apiserver.k8s.io", "flowschemas", "prioritylevelconfigurations"),
		"API Priority and Fairness follows its configuration",
	)
	writeFlowControlStatus = grant(
		resources(patch, "flowcontrol.apiserver.k8s.io", "flowschemas/status"),
		"API Priority and Fairness reports dangling references there",
	)

	ask        = resources(create, "authorization.k8s.io", "subjectaccessreviews")
	askOfNodes = grant(
		ask,
		"the CEL of an admission policy may ask what a node may do, and only core has the pods that run there",
	)

	discoveryPaths = []string{"/api", "/api/*", "/apis", "/apis/*", "/openapi", "/openapi/*", "/version", "/version/"}
)
