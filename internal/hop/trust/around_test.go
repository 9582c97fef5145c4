// Copyright The Tripod Authors.
// SPDX-License-Identifier: Apache-2.0

package trust

import (
	"context"
	"errors"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"k8s.io/apiserver/pkg/authentication/user"
	"k8s.io/apiserver/pkg/authorization/authorizer"
	"k8s.io/apiserver/pkg/endpoints/request"

	identityv1 "github.com/tripod-k8s/tripod/proto/identity/v1"
)

// always answers every question in the same way.
func always(decision authorizer.Decision, reason string, err error) authorizer.AuthorizerFunc {
	return func(context.Context, authorizer.Attributes) (authorizer.Decision, string, error) {
		return decision, reason, err
	}
}

func TestTheFirstOpinionCountsAndReasonsStayAsTheyAre(t *testing.T) {
	broken := errors.New("broken")
	none := always(authorizer.DecisionNoOpinion, "", nil)
	for name, test := range map[string]struct {
		before, policy, after authorizer.AuthorizerFunc
		decision              authorizer.Decision
		reason                string
		err                   error
	}{
		"before":       {always(authorizer.DecisionAllow, "rule", nil), always(authorizer.DecisionDeny, "policy", nil), none, authorizer.DecisionAllow, "rule", nil},
		"policy":       {always(authorizer.DecisionNoOpinion, "rule", broken), always(authorizer.DecisionDeny, "policy", nil), always(authorizer.DecisionAllow, "after", nil), authorizer.DecisionDeny, "policy", nil},
		"after":        {none, always(authorizer.DecisionNoOpinion, "policy", nil), always(authorizer.DecisionAllow, "after", nil), authorizer.DecisionAllow, "after", nil},
		"nobody":       {none, always(authorizer.DecisionNoOpinion, "policy", broken), always(authorizer.DecisionNoOpinion, "after", nil), authorizer.DecisionNoOpinion, "policy\nafter", broken},
		"error beside": {none, always(authorizer.DecisionAllow, "policy", broken), none, authorizer.DecisionAllow, "policy", broken},
	} {
		t.Run(name, func(t *testing.T) {
			around := Around([]Unconditional{test.before}, test.policy, test.after)
			decision, reason, err := around.Authorize(t.Context(), nil)
			assert.Equal(t, test.decision, decision)
			assert.Equal(t, test.reason, reason)
			assert.ErrorIs(t, err, test.err)

			aware := around.ConditionsAwareAuthorize(t.Context(), nil)
			assert.Equal(t, []bool{decision == authorizer.DecisionAllow, decision == authorizer.DecisionDeny, decision == authorizer.DecisionNoOpinion},
				[]bool{aware.IsAllow(), aware.IsDeny(), aware.IsNoOpinion()}, "the decision that may have conditions: %s", aware)
			assert.Equal(t, reason, aware.Reason())
			assert.ErrorIs(t, aware.Error(), test.err)
		})
	}
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

// An envelope has no place for conditions. Without them, a decision must not allow the request.
func TestADecisionWithConditionsAllowsNothingInAnEnvelope(t *testing.T) {
	info := &request.RequestInfo{IsResourceRequest: true, Path: "/apis/example.com/v1/boats", Verb: "create", APIGroup: "example.com", APIVersion: "v1", Resource: "boats"}
	ctx := request.WithUser(request.WithRequestInfo(t.Context(), info), &user.DefaultInfo{Name: "jane"})
	said, err := Decide(ctx, Around(nil, newOnCondition()))
	require.NoError(t, err)
	assert.Equal(t, identityv1.Decision_VERDICT_NO_OPINION, said.GetVerdict())
}
