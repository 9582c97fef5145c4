// Copyright The Tripod Authors.
// SPDX-License-Identifier: Apache-2.0

package trust

import (
	"context"
	"slices"

	rbacv1 "k8s.io/api/rbac/v1"
	"k8s.io/apiserver/pkg/authorization/authorizer"
	"k8s.io/component-helpers/auth/rbac/validation"
)

// NewAuthorizer returns an authorizer that allows other services what the rules list. self is the user name of this service, whose own
// replicas get no rights. The authorizer never denies; it has no opinion on any other request. It recognises services by the users that
// [BackendOptions.ApplyTo] sets.
func NewAuthorizer(self string) authorizer.Authorizer {
	return &serviceAuthorizer{self: self, used: newUsedRights()}
}

// serviceAuthorizer applies the rules to services, but not to users with the same names.
type serviceAuthorizer struct {
	self string
	used *usedRights
}

func (a *serviceAuthorizer) Authorize(_ context.Context, attributes authorizer.Attributes) (authorizer.Decision, string, error) {
	name := ServiceOf(attributes.GetUser())
	if name == "" || name == a.self {
		return authorizer.DecisionNoOpinion, "", nil
	}
	if withheld(name, attributes) {
		return authorizer.DecisionNoOpinion, "", nil
	}
	if !allow(serviceRules[grantee(name)], attributes) {
		return authorizer.DecisionNoOpinion, "", nil
	}
	a.used.note(attributes)
	return authorizer.DecisionAllow, "the service needs it for its work", nil
}

// withheld reports whether a rule with a wildcard does not include what a service asks. In RBAC a wildcard includes subresources, such as
// logs and proxies, which neither core nor search may read. Search does not copy Secrets.
func withheld(service string, asked authorizer.Attributes) bool {
	switch service {
	case Core:
		return asked.GetSubresource() != ""
	case Search:
		reads := slices.Contains(follow, asked.GetVerb())
		return reads && (asked.GetSubresource() != "" || asked.GetAPIGroup() == "" && asked.GetResource() == "secrets")
	}
	return false
}

// allow reports whether rules allow a request, by the rules of RBAC. (Kubernetes' own evaluator is not in a module that API services may
// require.)
func allow(rules []rbacv1.PolicyRule, request authorizer.Attributes) bool {
	asked := rbacv1.PolicyRule{Verbs: []string{request.GetVerb()}}
	if !request.IsResourceRequest() {
		asked.NonResourceURLs = []string{request.GetPath()}
	} else {
		asked.APIGroups, asked.Resources = []string{request.GetAPIGroup()}, []string{request.GetResource()}
		if request.GetSubresource() != "" {
			asked.Resources[0] += "/" + request.GetSubresource()
		}
		if request.GetName() != "" {
			asked.ResourceNames = []string{request.GetName()}
		}
	}
	covered, _ := validation.Covers(rules, []rbacv1.PolicyRule{asked})
	return covered
}
