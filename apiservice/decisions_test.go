// Copyright The Tripod Authors.
// SPDX-License-Identifier: Apache-2.0

package apiservice

import (
	"context"
	"errors"
	"strconv"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"

	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/selection"
	"k8s.io/apimachinery/pkg/util/cache"
	"k8s.io/apiserver/pkg/authentication/user"
	"k8s.io/apiserver/pkg/authorization/authorizer"
)

// core answers questions, and counts them.
type core struct {
	authorizer.Authorizer
	asked    int
	decision authorizer.Decision
	fails    error
}

func (c *core) Authorize(context.Context, authorizer.Attributes) (authorizer.Decision, string, error) {
	c.asked++
	return c.decision, "because", c.fails
}

// standing is a clock that stands.
type standing struct{ time.Time }

func (m *standing) Now() time.Time { return m.Time }

func TestDecisionsAreKeptForAMoment(t *testing.T) {
	about := func(change func(*authorizer.AttributesRecord)) authorizer.AttributesRecord {
		asked := authorizer.AttributesRecord{
			User: &user.DefaultInfo{Name: "jane", Groups: []string{"a", "b"}}, Verb: "list", APIGroup: "example.com", APIVersion: "v1",
			Resource: "boats", Name: "one", ResourceRequest: true, Path: "/apis/example.com/v1/boats/one",
		}
		change(&asked)
		return asked
	}
	first := about(func(*authorizer.AttributesRecord) {})
	next, moment := &core{fails: errors.New("core is away")}, &standing{time.Now()}
	kept := newDecisions(next, func(a authorizer.Attributes) bool { return a.GetResource() != "ships" },
		cache.NewLRUExpireCacheWithClock(maxDecisions, moment))
	expect := func(name string, want authorizer.Decision, questions int, about authorizer.Attributes) {
		t.Helper()
		before := next.asked
		got, reason, err := kept.Authorize(t.Context(), about)
		assert.Equal(t, want, got, name)
		assert.Equal(t, "because", reason, name)
		assert.Equal(t, next.fails, err, name)
		assert.Equal(t, questions, next.asked-before, name)
	}
	expect("an error", authorizer.DecisionDeny, 1, first)
	next.fails, next.decision = nil, authorizer.DecisionNoOpinion
	expect("after an error", authorizer.DecisionNoOpinion, 1, first)
	next.decision = authorizer.DecisionAllow
	expect("again", authorizer.DecisionNoOpinion, 0, first)
	expect("the groups in another order", authorizer.DecisionNoOpinion, 0, about(func(a *authorizer.AttributesRecord) {
		a.User = &user.DefaultInfo{Name: "jane", Groups: []string{"b", "a"}}
	}))
	for name, change := range map[string]func(*authorizer.AttributesRecord){
		"another user": func(a *authorizer.AttributesRecord) {
			a.User = &user.DefaultInfo{Name: "john", Groups: []string{"a", "b"}}
		},
		"another UID": func(a *authorizer.AttributesRecord) {
			a.User = &user.DefaultInfo{Name: "jane", UID: "1", Groups: []string{"a", "b"}}
		},
		"another group": func(a *authorizer.AttributesRecord) { a.User = &user.DefaultInfo{Name: "jane", Groups: []string{"a"}} },
		"groups in one": func(a *authorizer.AttributesRecord) {
			a.User = &user.DefaultInfo{Name: "jane", Groups: []string{`a" "b`}}
		},
		"extra": func(a *authorizer.AttributesRecord) {
			a.User = &user.DefaultInfo{Name: "jane", Groups: []string{"a", "b"}, Extra: map[string][]string{"x": {"y"}}}
		},
		"no user":       func(a *authorizer.AttributesRecord) { a.User = nil },
		"a verb":        func(a *authorizer.AttributesRecord) { a.Verb = "get" },
		"a group":       func(a *authorizer.AttributesRecord) { a.APIGroup = "example.org" },
		"a version":     func(a *authorizer.AttributesRecord) { a.APIVersion = "v2" },
		"a resource":    func(a *authorizer.AttributesRecord) { a.Resource = "floats" },
		"a subresource": func(a *authorizer.AttributesRecord) { a.Subresource = "status" },
		"a namespace":   func(a *authorizer.AttributesRecord) { a.Namespace = "default" },
		"a name":        func(a *authorizer.AttributesRecord) { a.Name = "two" },
		"a path":        func(a *authorizer.AttributesRecord) { a.Path = "/apis" },
		"no resource":   func(a *authorizer.AttributesRecord) { a.ResourceRequest = false },
		"by label": func(a *authorizer.AttributesRecord) {
			a.LabelSelectorRequirements, _ = labels.ParseToRequirements("team=a")
		},
		"by other label": func(a *authorizer.AttributesRecord) {
			a.LabelSelectorRequirements, _ = labels.ParseToRequirements("team=b")
		},
		"a wrong label": func(a *authorizer.AttributesRecord) { a.LabelSelectorParsingErr = errors.New("wrong") },
		"by field": func(a *authorizer.AttributesRecord) {
			a.FieldSelectorRequirements = fields.Requirements{{Field: "metadata.name", Operator: selection.Equals, Value: "x"}}
		},
		"a wrong field": func(a *authorizer.AttributesRecord) { a.FieldSelectorParsingErr = errors.New("wrong") },
	} {
		expect(name, authorizer.DecisionAllow, 1, about(change))
		expect(name+" again", authorizer.DecisionAllow, 0, about(change))
	}
	ships := about(func(a *authorizer.AttributesRecord) { a.Resource = "ships" })
	expect("what the service does not want kept", authorizer.DecisionAllow, 1, ships)
	expect("what the service does not want kept, again", authorizer.DecisionAllow, 1, ships)
	moment.Time = moment.Add(decisionsKept + time.Millisecond)
	expect("later", authorizer.DecisionAllow, 1, first)

	for i := range maxDecisions {
		expect("many", authorizer.DecisionAllow, 1, about(func(a *authorizer.AttributesRecord) { a.Name = strconv.Itoa(i) }))
	}
	expect("before many others", authorizer.DecisionAllow, 1, first)
}

func TestNothingIsKeptUnlessTheServiceWantsIt(t *testing.T) {
	next := &core{decision: authorizer.DecisionAllow}
	assert.Same(t, next, newDecisions(next, nil, nil))
}
