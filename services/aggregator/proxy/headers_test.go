// Copyright The Tripod Authors.
// SPDX-License-Identifier: Apache-2.0

package proxy

import (
	"context"
	"net/http"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"k8s.io/apiserver/pkg/authentication/user"
	"k8s.io/apiserver/pkg/authorization/authorizer"
	"k8s.io/apiserver/pkg/endpoints/request"

	"github.com/tripod-k8s/tripod/base/hop/envelope"
	"github.com/tripod-k8s/tripod/base/hop/trust/trusttest"
	identityv1 "github.com/tripod-k8s/tripod/proto/identity/v1"
)

// An API service that does not know the rights of services relies on the decisions of the aggregator, also about a request that has waited.
// So the policy of the aggregator, which may change meanwhile, does not decide about services.
func TestTheAggregatorDecidesForSendersOfEachKind(t *testing.T) {
	info := &request.RequestInfo{IsResourceRequest: true, Path: "/apis/example.com/v1/boats", Verb: "list", APIGroup: "example.com", Resource: "boats"}
	says := func(decision authorizer.Decision) authorizer.Authorizer {
		return authorizer.AuthorizerFunc(func(context.Context, authorizer.Attributes) (authorizer.Decision, string, error) {
			return decision, "", nil
		})
	}
	const allows, nothing = identityv1.Decision_VERDICT_ALLOW, identityv1.Decision_VERDICT_NO_OPINION
	for name, test := range map[string]struct {
		sender user.Info
		// want is the verdict where policy allows it and rights do not, and inReverse the other way around.
		want, inReverse identityv1.Decision_Verdict
	}{
		"a user":    {&user.DefaultInfo{Name: "jane"}, allows, nothing},
		"a service": {trusttest.Backend(t, "system:tripod:wardle"), nothing, allows},
	} {
		verdict := func(change func(*Forwarder)) *identityv1.Decision {
			f := &Forwarder{endings: NewEndings()}
			change(f)
			ctx := request.WithRequestInfo(request.WithUser(t.Context(), test.sender), info)
			req, err := http.NewRequestWithContext(ctx, http.MethodGet, "https://localhost"+info.Path, nil)
			require.NoError(t, err)
			sealed, err := f.seal(req, test.sender)
			require.NoError(t, err)
			opened, err := envelope.Decode(sealed)
			require.NoError(t, err)
			return opened.GetDecision()
		}
		allow, none := says(authorizer.DecisionAllow), says(authorizer.DecisionNoOpinion)
		decision := verdict(func(f *Forwarder) { f.Decide(allow, none) })
		assert.Equal(t, test.want, decision.GetVerdict(), name)
		assert.NotEmpty(t, decision.GetQuestion(), name)
		assert.Equal(t, test.inReverse, verdict(func(f *Forwarder) { f.Decide(none, allow) }).GetVerdict(), name)
		assert.Nil(t, verdict(func(*Forwarder) {}), name)
	}
}
