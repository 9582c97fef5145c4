// Copyright The Tripod Authors.
// SPDX-License-Identifier: Apache-2.0

package trust

import (
	"bytes"
	"context"

	rbacv1 "k8s.io/api/rbac/v1"
	"k8s.io/apiserver/pkg/authorization/authorizer"
	"k8s.io/component-helpers/auth/rbac/validation"

	identityv1 "github.com/tripod-k8s/tripod/proto/identity/v1"
)

// NewAuthorizer returns an authorizer that allows other services what they have the right to do. self is the user name of this service: its
// own replicas get no rights. The authorizer never denies; it has no opinion on any other request. It recognises services by the users that
// [BackendOptions.ApplyTo] sets.
func NewAuthorizer(self string, rights Rights) Unconditional {
	return &serviceAuthorizer{self: self, rights: rights, used: newUsedRights()}
}

// newStatedAuthorizer returns an authorizer for a service that does not know the rights of others. It allows them what the aggregator says
// that they may do.
func newStatedAuthorizer(self string) Unconditional {
	return &serviceAuthorizer{self: self, rights: Rights{Aggregator: AggregatorGrants()}, used: newUsedRights(), stated: true}
}

// serviceAuthorizer applies the rights to services, but not to users with the same names.
type serviceAuthorizer struct {
	self   string
	rights Rights
	used   *usedRights
	// stated is set if decisions of the aggregator count.
	stated bool
}

const reasonAllowed = "the service needs it for its work"

func (a *serviceAuthorizer) Authorize(ctx context.Context, attributes authorizer.Attributes) (authorizer.Decision, string, error) {
	name := ServiceOf(attributes.GetUser())
	switch {
	case name == "" || name == a.self:
	case a.rights.Allow(name, attributes):
		a.used.note(a.rights, attributes)
		return authorizer.DecisionAllow, reasonAllowed, nil
	case a.stated && isAllowedByAggregator(ctx, attributes):
		return authorizer.DecisionAllow, reasonAllowed, nil
	}
	return authorizer.DecisionNoOpinion, "", nil
}

// isAllowedByAggregator reports whether the aggregator says that the service that sent a request may do so. The aggregator says that by the
// list of rights only, which does not change while a request waits. What policy grants a service, core is asked about.
func isAllowedByAggregator(ctx context.Context, attributes authorizer.Attributes) bool {
	from, _ := ctx.Value(senderKey{}).(sender)
	return from.service != nil && from.decision.GetVerdict() == identityv1.Decision_VERDICT_ALLOW &&
		isAbout(ctx, attributes, from.service.User) && bytes.Equal(from.decision.GetQuestion(), Question(attributes))
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
