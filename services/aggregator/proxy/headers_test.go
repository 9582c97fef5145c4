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

	"github.com/tripod-k8s/tripod/internal/hop/envelope"
	"github.com/tripod-k8s/tripod/internal/hop/trust/trusttest"
	identityv1 "github.com/tripod-k8s/tripod/proto/identity/v1"
)

// An API service that does not know the rights of services relies on the decision of the aggregator, for services as for users.
func TestTheAggregatorDecidesForSendersOfEachKind(t *testing.T) {
	info := &request.RequestInfo{IsResourceRequest: true, Path: "/apis/example.com/v1/boats", Verb: "list", APIGroup: "example.com", Resource: "boats"}
	decides := authorizer.AuthorizerFunc(func(context.Context, authorizer.Attributes) (authorizer.Decision, string, error) {
		return authorizer.DecisionAllow, "", nil
	})
	for name, sender := range map[string]user.Info{
		"a user": &user.DefaultInfo{Name: "jane"}, "a service": trusttest.Backend(t, "system:tripod:wardle"),
	} {
		for by, want := range map[authorizer.Authorizer]identityv1.Decision_Verdict{
			&decides: identityv1.Decision_VERDICT_ALLOW, nil: identityv1.Decision_VERDICT_UNSPECIFIED,
		} {
			ctx := request.WithRequestInfo(request.WithUser(t.Context(), sender), info)
			req, err := http.NewRequestWithContext(ctx, http.MethodGet, "https://localhost"+info.Path, nil)
			require.NoError(t, err)
			sealed, err := seal(req, sender, by, NewEndings())
			require.NoError(t, err)
			opened, err := envelope.Decode(sealed)
			require.NoError(t, err)
			assert.Equal(t, want, opened.GetDecision().GetVerdict(), name)
			assert.Equal(t, want != identityv1.Decision_VERDICT_UNSPECIFIED, len(opened.GetDecision().GetQuestion()) > 0, name)
		}
	}
}
