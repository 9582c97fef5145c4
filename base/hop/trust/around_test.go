// Copyright The Tripod Authors.
// SPDX-License-Identifier: Apache-2.0

package trust

import (
	"context"
	"errors"
	"testing"

	"github.com/stretchr/testify/assert"

	"k8s.io/apiserver/pkg/authorization/authorizer"
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
	allow, deny := authorizer.DecisionAllow, authorizer.DecisionDeny
	noOpinion := authorizer.DecisionNoOpinion
	for name, test := range map[string]struct {
		before, policy, after authorizer.AuthorizerFunc
		decision              authorizer.Decision
		reason                string
		err                   error
	}{
		"before":       {always(allow, "rule", nil), always(deny, "policy", nil), none, allow, "rule", nil},
		"policy":       {always(noOpinion, "rule", broken), always(deny, "policy", nil), always(allow, "after", nil), deny, "policy", nil},
		"after":        {none, always(noOpinion, "policy", nil), always(allow, "after", nil), allow, "after", nil},
		"nobody":       {none, always(noOpinion, "policy", broken), always(noOpinion, "after", nil), noOpinion, "policy\nafter", broken},
		"error beside": {none, always(allow, "policy", broken), none, allow, "policy", broken},
	} {
		t.Run(name, func(t *testing.T) {
			around := Around([]Unconditional{test.before}, test.policy, test.after)
			decision, reason, err := around.Authorize(t.Context(), nil)
			assert.Equal(t, test.decision, decision)
			assert.Equal(t, test.reason, reason)
			assert.ErrorIs(t, err, test.err)
			sameWithConditions(t, around, decision, reason, test.err)
		})
	}
}
