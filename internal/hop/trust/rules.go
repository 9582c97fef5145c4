// Copyright The Tripod Authors.
// SPDX-License-Identifier: Apache-2.0

package trust

import (
	"slices"

	rbacv1 "k8s.io/api/rbac/v1"
)

// Grant is something that a service may do in its own name, and what it needs that for.
type Grant struct {
	Rule rbacv1.PolicyRule
	Why  string
}

// Services returns the user names of all services.
func Services() []string { return slices.Clone(services) }

// Grants returns all that a service, given by its user name, may do in its own name. docs/secure.md lists them.
func Grants(service string) []Grant { return slices.Clone(grants[service]) }

// verbs of rules.
var (
	read = []string{"get", "list", "watch"}
	// follow is what an informer needs.
	follow = []string{"list", "watch"}
	get    = []string{"get"}
	create = []string{"create"}
	update = []string{"update"}
	patch  = []string{"patch"}
)

func resources(verbs []string, group string, names ...string) rbacv1.PolicyRule {
	return rbacv1.PolicyRule{Verbs: verbs, APIGroups: []string{group}, Resources: names}
}

func paths(verbs []string, paths ...string) rbacv1.PolicyRule {
	return rbacv1.PolicyRule{Verbs: verbs, NonResourceURLs: paths}
}

// grants are all that services may do in their own name, by user name. Every service evaluates the whole of it, so a rule
// applies wherever the resource is served.
var grants = map[string][]Grant{
	Aggregator: {
		{readPolicy, "what it serves itself, and requests for third parties, are authorized by the policy of core"},
		{resources(follow, "", "services"), "third-party API servers are found by the Service that their APIService names"},
		{resources(follow, "discovery.k8s.io", "endpointslices"), "and reached at its endpoints"},
		{readAdmission, "APIServices obey the same webhooks and policies as other objects, and core and extensions may call third parties only at the paths of webhooks"},
		readFlowControl, writeFlowControlStatus, askOfNodes,
		{paths(get, "/apis", "/openapi/*"), "discovery and OpenAPI of the backends are merged"},
		{paths(get, "/", "/healthz", "/healthz/*", "/livez", "/livez/*", "/readyz", "/readyz/*", "/metrics"),
			"requests go to backends that are ready"},
	},
	Extensions: {
		{readPolicy, "custom resources are authorized by the policy of core"},
		{resources(read, "", "namespaces"), "they decide whether objects may be created in them, and webhooks and policies select by their labels"},
		{resources(create, "", "namespaces"), "where NamespaceAutoProvision is on, they are made for custom resources as for built-in ones"},
		{resources(follow, "", "services"), "webhooks are found by the Service that their configuration names"},
		{resources(follow, "discovery.k8s.io", "endpointslices"), "and reached at its endpoints"},
		{readAdmission, "admission of custom resources obeys the same webhooks and policies as that of built-in ones"},
		{resources(follow, "", "resourcequotas"), "custom resources count against the quota of their namespace"},
		{resources(update, "", "resourcequotas/status"), "and what they use of it is written there"},
		readFlowControl, writeFlowControlStatus, askOfNodes,
		{paths(get, discoveryPaths...), "admission policies map kinds to resources by discovery, and apply patches by OpenAPI schemas"},
	},
	Core: {
		{resources(read, "*", "*"),
			"admission policies may take parameters of any kind; in core itself, which reads its own without a certificate, this counts for nothing"},
		{paths(get, "/apis", "/apis/*"), "admission maps kinds to resources by discovery"},
	},
}

var (
	// readPolicy is what authorizers follow.
	readPolicy = resources(follow, rbacv1.GroupName, "roles", "rolebindings", "clusterroles", "clusterrolebindings")

	// readAdmission is what admission plugins follow.
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
		"and dangling references in it are reported in its status",
	}

	askOfNodes = Grant{
		resources(create, "authorization.k8s.io", "subjectaccessreviews"),
		"admission policies may ask what a node may do, and core alone knows which pods it runs",
	}

	discoveryPaths = []string{"/api", "/api/*", "/apis", "/apis/*", "/openapi", "/openapi/*", "/version", "/version/"}
)

// serviceRules are the rules of grants.
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
