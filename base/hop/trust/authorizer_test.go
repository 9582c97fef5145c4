// Copyright The Tripod Authors.
// SPDX-License-Identifier: Apache-2.0

package trust

import (
	"context"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	rbacv1 "k8s.io/api/rbac/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apiserver/pkg/authentication/authenticator"
	"k8s.io/apiserver/pkg/authentication/user"
	"k8s.io/apiserver/pkg/authorization/authorizer"
	genericapifilters "k8s.io/apiserver/pkg/endpoints/filters"
	apirequest "k8s.io/apiserver/pkg/endpoints/request"

	identityv1 "github.com/tripod-k8s/tripod/proto/identity/v1"
)

func resource(verb, group, name string) authorizer.AttributesRecord {
	return authorizer.AttributesRecord{Verb: verb, APIGroup: group, Resource: name, ResourceRequest: true}
}

func subresource(verb, group, name, sub string) authorizer.AttributesRecord {
	attributes := resource(verb, group, name)
	attributes.Subresource = sub
	return attributes
}

func path(verb, path string) authorizer.AttributesRecord {
	return authorizer.AttributesRecord{Verb: verb, Path: path}
}

// wardle is an additional API service.
const wardle = userPrefix + "wardle"

// rights are those of some services. "A" may read all but logs and Secrets, and all others may read namespaces.
var rights = Rights{
	Aggregator: AggregatorGrants(),
	UserOf("a"): {{
		Rule:   rbacv1.PolicyRule{Verbs: []string{"list", "watch"}, APIGroups: []string{"*"}, Resources: []string{"*"}},
		Except: Except{Subresources: true, Resources: []schema.GroupResource{{Resource: "secrets"}}},
	}, {
		Rule: rbacv1.PolicyRule{Verbs: []string{"list"}, APIGroups: []string{""}, Resources: []string{"pods/status"}},
	}},
	UserOf("none"): nil,
	AnyOther:       {{Rule: rbacv1.PolicyRule{Verbs: []string{"get"}, APIGroups: []string{""}, Resources: []string{"namespaces"}}}},
}

func TestAuthorizer(t *testing.T) {
	for _, test := range []struct {
		name, user string
		request    authorizer.AttributesRecord
		allowed    bool
	}{
		{"the aggregator reads discovery", Aggregator, path("get", "/apis"), true},
		{"the aggregator reads no discovery of a group", Aggregator, path("get", "/apis/apps/v1"), false},
		{"the aggregator does not post to discovery", Aggregator, path("post", "/apis"), false},
		{"the aggregator gets nothing of others", Aggregator, resource("get", "", "namespaces"), false},
		{"a wildcard has all groups", UserOf("a"), resource("watch", "example.com", "widgets"), true},
		{"a wildcard has no other verbs", UserOf("a"), resource("get", "example.com", "widgets"), false},
		{"an exception of a resource", UserOf("a"), resource("list", "", "secrets"), false},
		{"a resource of that name in another group", UserOf("a"), resource("list", "example.com", "secrets"), true},
		{"an exception of subresources", UserOf("a"), subresource("list", "", "pods", "log"), false},
		{"another rule names the subresource", UserOf("a"), subresource("list", "", "pods", "status"), true},
		{"a listed service has no rights of others", UserOf("a"), resource("get", "", "namespaces"), false},
		{"a listed service without rights", UserOf("none"), resource("get", "", "namespaces"), false},
		{"a service that is not listed", wardle, resource("get", "", "namespaces"), true},
		{"a service that is not listed has no rights of others", wardle, resource("list", "example.com", "widgets"), false},
		{"a service without a name gets nothing", userPrefix, resource("get", "", "namespaces"), false},
		{"others get nothing", "jane", resource("get", "", "namespaces"), false},
		{"others do not read discovery by this", "jane", path("get", "/apis"), false},
	} {
		t.Run(test.name, func(t *testing.T) {
			request := test.request
			request.User = &service{user.DefaultInfo{Name: test.user, Groups: []string{user.AllAuthenticated}}}
			decision, _, err := NewAuthorizer("", rights).Authorize(t.Context(), request)
			require.NoError(t, err)
			assert.Equal(t, test.allowed, decision == authorizer.DecisionAllow)
		})
	}
}

func TestAServiceWithoutRightsOfOthersBelievesTheAggregator(t *testing.T) {
	info := &apirequest.RequestInfo{
		IsResourceRequest: true, Path: "/apis/example.com/v1/boats", Verb: "watch", APIPrefix: "apis", APIGroup: "example.com", APIVersion: "v1",
		Resource: "boats",
	}
	sent := newService(UserOf("a"), nil)
	about, err := genericapifilters.GetAuthorizerAttributes(apirequest.WithUser(apirequest.WithRequestInfo(t.Context(), info), sent))
	require.NoError(t, err)
	decided := func(verdict identityv1.Decision_Verdict) *identityv1.Decision {
		return &identityv1.Decision{Verdict: verdict, Question: Question(about)}
	}
	allowed := decided(identityv1.Decision_VERDICT_ALLOW)
	other := decided(identityv1.Decision_VERDICT_ALLOW)
	other.Question = []byte("another")
	for name, test := range map[string]struct {
		decision *identityv1.Decision
		self     string
		as       user.Info
		verb     string
		rights   Rights
		want     bool
	}{
		"allowed":                          {decision: allowed, want: true},
		"denied":                           {decision: decided(identityv1.Decision_VERDICT_DENY)},
		"no opinion":                       {decision: decided(identityv1.Decision_VERDICT_NO_OPINION)},
		"no decision":                      {},
		"about something else":             {decision: other},
		"of the service itself":            {decision: allowed, self: UserOf("a")},
		"another user":                     {decision: allowed, as: newService(UserOf("a"), nil)},
		"a user with the name":             {decision: allowed, as: &user.DefaultInfo{Name: UserOf("a")}},
		"another question":                 {decision: allowed, verb: "delete"},
		"a service that knows rights":      {decision: allowed, rights: Rights{}},
		"a service with rights allows too": {rights: rights, want: true},
	} {
		t.Run(name, func(t *testing.T) {
			from := sender{service: &authenticator.Response{User: sent}, decision: test.decision}
			ctx := apirequest.WithRequestInfo(context.WithValue(t.Context(), senderKey{}, from), info)
			// It has waited for long, and the rights are the same.
			ctx = apirequest.WithReceivedTimestamp(apirequest.WithUser(ctx, sent), time.Now().Add(-time.Hour))
			attributes, err := genericapifilters.GetAuthorizerAttributes(ctx)
			require.NoError(t, err)
			asked := *attributes.(*authorizer.AttributesRecord)
			if test.as != nil {
				asked.User = test.as
			}
			if test.verb != "" {
				asked.Verb = test.verb
			}
			a := newStatedAuthorizer(test.self)
			if test.rights != nil {
				a = NewAuthorizer(test.self, test.rights)
			}
			decision, _, err := a.Authorize(ctx, &asked)
			require.NoError(t, err)
			assert.Equal(t, test.want, decision == authorizer.DecisionAllow)
		})
	}
}

func TestAuthorizerLeavesTheReasonToOthers(t *testing.T) {
	for _, u := range []user.Info{nil, &user.DefaultInfo{Name: "jane"}, &user.DefaultInfo{Name: Aggregator}} {
		request := resource("list", "", "services")
		request.User = u
		decision, reason, err := NewAuthorizer(Core, rights).Authorize(t.Context(), request)
		if decision != authorizer.DecisionNoOpinion || reason != "" || err != nil {
			t.Errorf("user %v: got (%v, %q, %v)", u, decision, reason, err)
		}
	}
}

func TestAServiceHasNothingToAskOfItself(t *testing.T) {
	request := resource("list", "", "pods")
	request.User = newService(UserOf("a"), nil)
	for at, want := range map[string]authorizer.Decision{
		UserOf("a"): authorizer.DecisionNoOpinion, UserOf("b"): authorizer.DecisionAllow, Aggregator: authorizer.DecisionAllow,
	} {
		if decision, _, err := NewAuthorizer(at, rights).Authorize(t.Context(), request); decision != want || err != nil {
			t.Errorf("a receives %v from %s, error %v; want %v", decision, at, err, want)
		}
	}
}
