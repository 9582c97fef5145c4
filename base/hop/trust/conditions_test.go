// Copyright The Tripod Authors.
// SPDX-License-Identifier: Apache-2.0

//go:build !kube1.36

package trust

import (
	"context"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"k8s.io/apiserver/pkg/authentication/user"
	"k8s.io/apiserver/pkg/authorization/authorizer"
	"k8s.io/apiserver/pkg/endpoints/request"

	identityv1 "github.com/tripod-k8s/tripod/proto/identity/v1"
)

// sameWithConditions checks the decision of a handler chain that knows of conditions, about a request that has none.
func sameWithConditions(t *testing.T, of authorizer.Authorizer, decision authorizer.Decision, reason string, err error) {
	t.Helper()
	aware := of.ConditionsAwareAuthorize(t.Context(), nil)
	assert.Equal(t,
		[]bool{decision == authorizer.DecisionAllow, decision == authorizer.DecisionDeny, decision == authorizer.DecisionNoOpinion},
		[]bool{aware.IsAllow(), aware.IsDeny(), aware.IsNoOpinion()}, "the decision that may have conditions: %s", aware)
	assert.Equal(t, reason, aware.Reason())
	assert.ErrorIs(t, aware.Error(), err)
}

// onCondition allows a request if the data has a name.
type onCondition struct{ authorizer.AuthorizerFunc }

func newOnCondition() onCondition {
	return onCondition{always(authorizer.DecisionNoOpinion, "cannot say without the object", nil)}
}

func (onCondition) ConditionsAwareAuthorize(context.Context, authorizer.Attributes) authorizer.ConditionsAwareDecision {
	return authorizer.ConditionsAwareDecisionConditionsMap(nil, nil, []authorizer.Condition{authorizer.GenericCondition{ID: "named"}})
}

func (onCondition) EvaluateConditions(
	_ context.Context, _ authorizer.ConditionsAwareDecision, data authorizer.ConditionsData,
) (authorizer.Decision, string, error) {
	if data.GetName() != "" {
		return authorizer.DecisionAllow, "named", nil
	}
	return authorizer.DecisionNoOpinion, "", nil
}

// dataOf is the data of an object with a name.
type dataOf struct {
	authorizer.ConditionsData
	name string
}

func (d dataOf) GetName() string { return d.name }

func TestPolicyEvaluatesItsOwnConditions(t *testing.T) {
	none := always(authorizer.DecisionNoOpinion, "", nil)
	for name, a := range map[string]authorizer.Authorizer{
		"around":  Around([]Unconditional{none}, newOnCondition(), none),
		"decided": Decided(newOnCondition()),
	} {
		t.Run(name, func(t *testing.T) {
			decision := a.ConditionsAwareAuthorize(t.Context(), authorizer.AttributesRecord{})
			require.True(t, decision.IsConditionsMap(), "decision %s", decision)
			for object, want := range map[string]authorizer.Decision{"a": authorizer.DecisionAllow, "": authorizer.DecisionNoOpinion} {
				got, _, err := a.EvaluateConditions(t.Context(), decision, dataOf{name: object})
				require.NoError(t, err)
				assert.Equal(t, want, got, "name %q", object)
			}
			unconditional, _, err := a.Authorize(t.Context(), authorizer.AttributesRecord{})
			require.NoError(t, err)
			assert.Equal(t, authorizer.DecisionNoOpinion, unconditional, "for a handler chain that knows of no conditions")
		})
	}
}

// An envelope has no place for conditions. Without them, a decision must not be sent: the service could take it for the whole one.
func TestNoEnvelopeHasADecisionThatDependsOnConditions(t *testing.T) {
	info := &request.RequestInfo{
		IsResourceRequest: true, Path: "/apis/example.com/v1/boats", Verb: "create", APIGroup: "example.com", APIVersion: "v1", Resource: "boats",
	}
	ctx := request.WithUser(request.WithRequestInfo(t.Context(), info), &user.DefaultInfo{Name: "jane"})
	for name, test := range map[string]struct {
		policy authorizer.Authorizer
		want   *identityv1.Decision
	}{
		"on conditions": {newOnCondition(), nil},
		"allowed":       {always(authorizer.DecisionAllow, "rule", nil), &identityv1.Decision{Verdict: identityv1.Decision_VERDICT_ALLOW}},
		"denied":        {always(authorizer.DecisionDeny, "rule", nil), &identityv1.Decision{Verdict: identityv1.Decision_VERDICT_DENY}},
		"no opinion":    {always(authorizer.DecisionNoOpinion, "rule", nil), &identityv1.Decision{Verdict: identityv1.Decision_VERDICT_NO_OPINION}},
	} {
		t.Run(name, func(t *testing.T) {
			decision, err := Decide(ctx, Around(nil, test.policy))
			require.NoError(t, err)
			assert.Equal(t, test.want == nil, decision == nil, "decided %v", decision)
			assert.Equal(t, test.want.GetVerdict(), decision.GetVerdict())
		})
	}
}
