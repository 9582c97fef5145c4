// Copyright The Tripod Authors.
// SPDX-License-Identifier: Apache-2.0

//go:build !kube1.36

package policy

import (
	"context"
	"errors"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"k8s.io/apiserver/pkg/authorization/authorizer"
	"k8s.io/kubernetes/pkg/auth/nodeidentifier"
)

// conditional decides on the object alone, which it does not have before admission.
type conditional struct {
	decision authorizer.ConditionsAwareDecision
}

func (conditional) Authorize(context.Context, authorizer.Attributes) (authorizer.Decision, string, error) {
	return authorizer.DecisionNoOpinion, "", nil
}

func (c conditional) ConditionsAwareAuthorize(context.Context, authorizer.Attributes) authorizer.ConditionsAwareDecision {
	return c.decision
}

func (conditional) EvaluateConditions(
	context.Context, authorizer.ConditionsAwareDecision, authorizer.ConditionsData,
) (authorizer.Decision, string, error) {
	return authorizer.DecisionAllow, "evaluated", nil
}

func onConditions() authorizer.ConditionsAwareDecision {
	return authorizer.ConditionsAwareDecisionConditionsMap(nil, nil, []authorizer.Condition{authorizer.GenericCondition{ID: "named"}})
}

func TestAPolicyThatIsNotSyncedGivesNoConditions(t *testing.T) {
	for name, test := range map[string]struct {
		synced   bool
		decision authorizer.ConditionsAwareDecision
		want     func(authorizer.ConditionsAwareDecision) bool
		err      error
	}{
		"conditions":             {true, onConditions(), authorizer.ConditionsAwareDecision.IsConditionsMap, nil},
		"denied":                 {true, authorizer.ConditionsAwareDecisionDeny("rule", nil), authorizer.ConditionsAwareDecision.IsDeny, nil},
		"conditions before":      {false, onConditions(), authorizer.ConditionsAwareDecision.IsNoOpinion, errNotSynced},
		"denied before":          {false, authorizer.ConditionsAwareDecisionDeny("rule", nil), authorizer.ConditionsAwareDecision.IsNoOpinion, errNotSynced},
		"allowed before":         {false, authorizer.ConditionsAwareDecisionAllow("rule", nil), authorizer.ConditionsAwareDecision.IsAllow, nil},
		"allowed by the objects": {true, authorizer.ConditionsAwareDecisionAllow("rule", nil), authorizer.ConditionsAwareDecision.IsAllow, nil},
	} {
		t.Run(name, func(t *testing.T) {
			p := &Policy{authorizer: conditional{test.decision}, synced: func() bool { return test.synced }}
			got := p.ConditionsAwareAuthorize(t.Context(), authorizer.AttributesRecord{})
			assert.True(t, test.want(got), "decision %s", got)
			assert.ErrorIs(t, got.Error(), test.err)
		})
	}
}

func TestAPolicyEvaluatesByItsAuthorizers(t *testing.T) {
	p := &Policy{authorizer: conditional{}, synced: func() bool { return true }}
	decision, reason, err := p.EvaluateConditions(t.Context(), onConditions(), nil)
	require.NoError(t, err)
	assert.Equal(t, []any{authorizer.DecisionAllow, "evaluated"}, []any{decision, reason})
}

// What core decides by its graph has no conditions. A failure of core is in the decision.
func TestWhatTheGraphDecidesHasNoConditions(t *testing.T) {
	away := errors.New("core is away")
	core := authorizer.AuthorizerFunc(func(context.Context, authorizer.Attributes) (authorizer.Decision, string, error) {
		return authorizer.DecisionNoOpinion, "", away
	})
	n := &nodes{Authorizer: conditional{onConditions()}, identifier: nodeidentifier.NewDefaultNodeIdentifier(), core: core}
	byGraph := n.ConditionsAwareAuthorize(t.Context(), to(node, "get", "", "secrets"))
	assert.True(t, byGraph.IsNoOpinion(), "decision %s", byGraph)
	require.ErrorIs(t, byGraph.Error(), away)
	others := n.ConditionsAwareAuthorize(t.Context(), to(jane, "get", "", "secrets"))
	assert.True(t, others.IsConditionsMap(), "decision %s", others)
}
