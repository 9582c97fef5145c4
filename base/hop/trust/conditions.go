// Copyright The Tripod Authors.
// SPDX-License-Identifier: Apache-2.0

//go:build !kube1.36

package trust

import (
	"context"

	"k8s.io/apiserver/pkg/authorization/authorizer"
)

// ConditionsAwareAuthorize implements authorizer.Authorizer.
func (a *around) ConditionsAwareAuthorize(ctx context.Context, attributes authorizer.Attributes) authorizer.ConditionsAwareDecision {
	var all opinions
	for _, each := range a.before {
		if all.add(each.Authorize(ctx, attributes)) {
			return authorizer.ConditionsAwareDecisionFromParts(all.decision())
		}
	}
	decision := a.policy.ConditionsAwareAuthorize(ctx, attributes)
	if !decision.IsNoOpinion() {
		return decision
	}
	all.add(authorizer.DecisionNoOpinion, decision.Reason(), decision.Error())
	return authorizer.ConditionsAwareDecisionFromParts(a.askAfter(ctx, attributes, all))
}

// EvaluateConditions implements authorizer.Authorizer. Only the decisions of policy have conditions. If these leave it without an opinion,
// no other authorizer is asked.
func (a *around) EvaluateConditions(
	ctx context.Context, decision authorizer.ConditionsAwareDecision, data authorizer.ConditionsData,
) (authorizer.Decision, string, error) {
	return a.policy.EvaluateConditions(ctx, decision, data)
}

// ConditionsAwareAuthorize implements authorizer.Authorizer. An envelope carries no conditions, see [Decide].
func (d decided) ConditionsAwareAuthorize(ctx context.Context, attributes authorizer.Attributes) authorizer.ConditionsAwareDecision {
	if received := receivedDecision(ctx, attributes); received != nil {
		return authorizer.ConditionsAwareDecisionFromParts(received.decision, received.reason, received.err)
	}
	return d.next.ConditionsAwareAuthorize(ctx, attributes)
}

// EvaluateConditions implements authorizer.Authorizer.
func (d decided) EvaluateConditions(
	ctx context.Context, decision authorizer.ConditionsAwareDecision, data authorizer.ConditionsData,
) (authorizer.Decision, string, error) {
	return d.next.EvaluateConditions(ctx, decision, data)
}

// mayAllow reports whether an authorizer allows something, perhaps on conditions.
func mayAllow(ctx context.Context, decides authorizer.Authorizer, attributes authorizer.Attributes) bool {
	return decides.ConditionsAwareAuthorize(ctx, attributes).PossibleDecisions().Has(authorizer.DecisionAllow)
}
