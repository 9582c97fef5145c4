// Copyright The Tripod Authors.
// SPDX-License-Identifier: Apache-2.0

//go:build !kube1.36

package policy

import (
	"context"

	"k8s.io/apiserver/pkg/authorization/authorizer"
)

// ConditionsAwareAuthorize implements authorizer.Authorizer. Before the policy is synced, it fails as Authorize does.
func (p *Policy) ConditionsAwareAuthorize(ctx context.Context, attributes authorizer.Attributes) authorizer.ConditionsAwareDecision {
	synced := p.Synced() // as the decision must not be older than the answer to this
	decision := p.authorizer.ConditionsAwareAuthorize(ctx, attributes)
	if synced || decision.IsAllow() {
		return decision
	}
	return authorizer.ConditionsAwareDecisionNoOpinion("", errNotSynced)
}

// EvaluateConditions implements authorizer.Authorizer. Conditions come from the configured authorizers, so these evaluate them here, in the
// service that admits the object.
func (p *Policy) EvaluateConditions(
	ctx context.Context, decision authorizer.ConditionsAwareDecision, data authorizer.ConditionsData,
) (authorizer.Decision, string, error) {
	return p.authorizer.EvaluateConditions(ctx, decision, data)
}

// ConditionsAwareAuthorize implements authorizer.Authorizer. Mode Node attaches no conditions to what it decides by its graph, which core
// has.
func (n *nodes) ConditionsAwareAuthorize(ctx context.Context, attributes authorizer.Attributes) authorizer.ConditionsAwareDecision {
	if n.needGraph(attributes) {
		return authorizer.ConditionsAwareDecisionFromParts(n.Authorize(ctx, attributes))
	}
	return n.Authorizer.ConditionsAwareAuthorize(ctx, attributes)
}
