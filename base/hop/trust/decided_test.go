// Copyright The Tripod Authors.
// SPDX-License-Identifier: Apache-2.0

package trust

import (
	"context"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/selection"
	"k8s.io/apiserver/pkg/authentication/user"
	"k8s.io/apiserver/pkg/authorization/authorizer"
	genericapifilters "k8s.io/apiserver/pkg/endpoints/filters"
	"k8s.io/apiserver/pkg/endpoints/request"

	identityv1 "github.com/tripod-k8s/tripod/proto/identity/v1"
)

// denying denies everything, and records that it was asked.
func denying(context.Context, authorizer.Attributes) (authorizer.Decision, string, error) {
	return authorizer.DecisionDeny, "asked", nil
}

func TestADecisionIsAboutTheRequestOfItsSender(t *testing.T) {
	jane := &user.DefaultInfo{Name: "jane", Groups: []string{"system:authenticated"}}
	info := &request.RequestInfo{
		IsResourceRequest: true, Path: "/apis/example.com/v1/namespaces/a/boats/b", Verb: "get", APIPrefix: "apis",
		APIGroup: "example.com", APIVersion: "v1", Namespace: "a", Resource: "boats", Name: "b",
	}
	asked, err := genericapifilters.GetAuthorizerAttributes(request.WithUser(request.WithRequestInfo(t.Context(), info), jane))
	require.NoError(t, err)
	decided := func(verdict identityv1.Decision_Verdict) *identityv1.Envelope {
		return &identityv1.Envelope{User: &identityv1.User{Name: "jane"}, Decision: &identityv1.Decision{
			Verdict: verdict, Reason: "said", Question: Question(asked),
		}}
	}
	allowed := decided(identityv1.Decision_VERDICT_ALLOW)
	understood := func(change func(*authorizer.AttributesRecord)) *identityv1.Envelope {
		other, envelope := *asked.(*authorizer.AttributesRecord), decided(identityv1.Decision_VERDICT_ALLOW)
		change(&other)
		envelope.Decision.Question = Question(&other)
		return envelope
	}
	withoutQuestion := decided(identityv1.Decision_VERDICT_ALLOW)
	withoutQuestion.Decision.Question = nil
	for name, test := range map[string]struct {
		envelope *identityv1.Envelope
		// as is who the request is of after impersonation.
		as     user.Info
		change func(*authorizer.AttributesRecord)
		waited time.Duration
		want   authorizer.Decision
		reason string
	}{
		"allowed":                    {envelope: allowed, want: authorizer.DecisionAllow, reason: "said"},
		"allowed, and it has waited": {envelope: allowed, waited: time.Minute, want: authorizer.DecisionDeny, reason: "asked"},
		"denied":                     {envelope: decided(identityv1.Decision_VERDICT_DENY), want: authorizer.DecisionDeny, reason: "said"},
		"no opinion":                 {envelope: decided(identityv1.Decision_VERDICT_NO_OPINION), want: authorizer.DecisionNoOpinion, reason: "said"},
		"unknown":                    {envelope: decided(identityv1.Decision_VERDICT_UNSPECIFIED), want: authorizer.DecisionNoOpinion, reason: "said"},
		"a later version knows":      {envelope: decided(9), want: authorizer.DecisionNoOpinion, reason: "said"},
		"no decision":                {envelope: &identityv1.Envelope{User: &identityv1.User{Name: "jane"}}, want: authorizer.DecisionDeny, reason: "asked"},
		"no envelope":                {want: authorizer.DecisionDeny, reason: "asked"},
		"somebody is impersonated":   {envelope: allowed, as: &user.DefaultInfo{Name: "ann"}, want: authorizer.DecisionDeny, reason: "asked"},
		"the sender impersonates herself, perhaps without her groups": {
			envelope: allowed, as: &user.DefaultInfo{Name: "jane"}, want: authorizer.DecisionDeny, reason: "asked"},
		"another verb": {envelope: allowed, change: func(a *authorizer.AttributesRecord) { a.Verb = "delete" }, want: authorizer.DecisionDeny, reason: "asked"},
		"another name": {envelope: allowed, change: func(a *authorizer.AttributesRecord) { a.Name = "c" }, want: authorizer.DecisionDeny, reason: "asked"},
		"the aggregator understood another verb": {
			envelope: understood(func(a *authorizer.AttributesRecord) { a.Verb = "list" }), want: authorizer.DecisionDeny, reason: "asked"},
		"the aggregator understood a subresource": {
			envelope: understood(func(a *authorizer.AttributesRecord) { a.Subresource, a.Name = "b", "boats" }), want: authorizer.DecisionDeny, reason: "asked"},
		"the aggregator understood a selector": {envelope: understood(func(a *authorizer.AttributesRecord) {
			a.FieldSelectorRequirements = fields.Requirements{{Field: "metadata.name", Operator: selection.Equals, Value: "b"}}
		}), want: authorizer.DecisionDeny, reason: "asked"},
		"the aggregator does not say what it understood": {envelope: withoutQuestion, want: authorizer.DecisionDeny, reason: "asked"},
		"whether she may impersonate": {envelope: allowed, change: func(a *authorizer.AttributesRecord) {
			*a = authorizer.AttributesRecord{User: a.User, Verb: "impersonate", Resource: "users", Name: "ann", ResourceRequest: true}
		}, want: authorizer.DecisionDeny, reason: "asked"},
	} {
		t.Run(name, func(t *testing.T) {
			from := sender{envelope: test.envelope}
			if test.envelope != nil {
				from.user = jane
			}
			ctx := request.WithRequestInfo(context.WithValue(t.Context(), senderKey{}, from), info)
			ctx = request.WithReceivedTimestamp(request.WithUser(ctx, jane), time.Now().Add(-test.waited))
			if test.as != nil {
				ctx = request.WithUser(ctx, test.as)
			}
			attributes, err := genericapifilters.GetAuthorizerAttributes(ctx)
			require.NoError(t, err)
			if test.change != nil {
				test.change(attributes.(*authorizer.AttributesRecord))
			}
			decision, reason, err := Decided(authorizer.AuthorizerFunc(denying)).Authorize(ctx, attributes)
			require.NoError(t, err)
			assert.Equal(t, test.want, decision)
			assert.Equal(t, test.reason, reason)
		})
	}
}
