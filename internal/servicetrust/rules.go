// Copyright The Tripod Authors.
// SPDX-License-Identifier: Apache-2.0

package servicetrust

import (
	rbacv1 "k8s.io/api/rbac/v1"
)

// read is what an informer needs.
var read = []string{"get", "list", "watch"}

// serviceRules is all that services may do in their own name, by user name. Every service evaluates the whole of it,
// so a rule applies wherever the resource is served.
var serviceRules = map[string][]rbacv1.PolicyRule{
	Aggregator: {
		// Bearer tokens are checked by core.
		{Verbs: []string{"create"}, APIGroups: []string{"authentication.k8s.io"}, Resources: []string{"tokenreviews"}},
		// What the aggregator serves itself is authorized by core.
		{Verbs: []string{"create"}, APIGroups: []string{"authorization.k8s.io"}, Resources: []string{"subjectaccessreviews"}},
		// Third-party API servers are found by the Service that their APIService names.
		{Verbs: read, APIGroups: []string{""}, Resources: []string{"services"}},
		{Verbs: read, APIGroups: []string{"discovery.k8s.io"}, Resources: []string{"endpointslices"}},
		// Each group-version of a CRD gets an APIService.
		{Verbs: read, APIGroups: []string{"apiextensions.k8s.io"}, Resources: []string{"customresourcedefinitions"}},
		readFlowControl, updateFlowControlStatus,
		// Discovery and OpenAPI of the backends are merged, and their health decides where requests go.
		{Verbs: []string{"get"}, NonResourceURLs: discoveryPaths},
		{Verbs: []string{"get"}, NonResourceURLs: []string{
			"/", "/healthz", "/healthz/*", "/livez", "/livez/*", "/readyz", "/readyz/*", "/metrics",
		}},
	},
	Extensions: {
		// Requests for custom resources are authorized by core.
		{Verbs: []string{"create"}, APIGroups: []string{"authorization.k8s.io"}, Resources: []string{"subjectaccessreviews"}},
		// Namespaces decide whether objects may be created in them; webhooks and policies select by their labels.
		{Verbs: read, APIGroups: []string{""}, Resources: []string{"namespaces"}},
		// Admission and conversion webhooks are found by the Service that their configuration names.
		{Verbs: read, APIGroups: []string{""}, Resources: []string{"services"}},
		{Verbs: read, APIGroups: []string{"discovery.k8s.io"}, Resources: []string{"endpointslices"}},
		// Admission of custom resources obeys the same webhooks and policies as that of built-in ones.
		{Verbs: read, APIGroups: []string{"admissionregistration.k8s.io"}, Resources: []string{
			"mutatingwebhookconfigurations", "validatingwebhookconfigurations",
			"mutatingadmissionpolicies", "mutatingadmissionpolicybindings",
			"validatingadmissionpolicies", "validatingadmissionpolicybindings",
		}},
		// Custom resources count against the quota of their namespace.
		{Verbs: read, APIGroups: []string{""}, Resources: []string{"resourcequotas"}},
		{Verbs: []string{"update", "patch"}, APIGroups: []string{""}, Resources: []string{"resourcequotas/status"}},
		// Policies most often take their parameters from ConfigMaps. For other built-in kinds of parameters an
		// administrator binds a role to the user of this service.
		{Verbs: read, APIGroups: []string{""}, Resources: []string{"configmaps"}},
		readFlowControl, updateFlowControlStatus,
		// Policies map kinds to resources by discovery, and mutating ones apply patches by OpenAPI schemas.
		{Verbs: []string{"get"}, NonResourceURLs: discoveryPaths},
	},
	Core: {},
}

// API Priority and Fairness follows the configuration in core, and reports dangling references in its status.
var (
	readFlowControl = rbacv1.PolicyRule{
		Verbs: read, APIGroups: []string{"flowcontrol.apiserver.k8s.io"},
		Resources: []string{"flowschemas", "prioritylevelconfigurations"},
	}
	updateFlowControlStatus = rbacv1.PolicyRule{
		Verbs: []string{"update", "patch"}, APIGroups: []string{"flowcontrol.apiserver.k8s.io"},
		Resources: []string{"flowschemas/status", "prioritylevelconfigurations/status"},
	}
)

var discoveryPaths = []string{
	"/api", "/api/*", "/apis", "/apis/*", "/openapi", "/openapi/*", "/version", "/version/",
}
