// Copyright The Tripod Authors.
// SPDX-License-Identifier: Apache-2.0

package server

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"

	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/selection"
	"k8s.io/apiserver/pkg/authentication/user"
	"k8s.io/apiserver/pkg/authorization/authorizer"
	testingclock "k8s.io/utils/clock/testing"
)

func TestDecisionsAboutClustersAreRememberedForAMoment(t *testing.T) {
	jane, john := &user.DefaultInfo{Name: "jane", Groups: []string{"a"}}, &user.DefaultInfo{Name: "jane", Groups: []string{"b"}}
	about := func(reader user.Info, resource, name string) authorizer.AttributesRecord {
		return authorizer.AttributesRecord{User: reader, Verb: "list", APIGroup: "clusterpedia.io", Resource: resource, Name: name, ResourceRequest: true}
	}
	asked, decision, fails := 0, authorizer.DecisionNoOpinion, error(nil)
	clock := testingclock.NewFakeClock(time.Now())
	r := remember(authorizer.AuthorizerFunc(func(context.Context, authorizer.Attributes) (authorizer.Decision, string, error) {
		asked++
		return decision, "because", fails
	}), clock)
	expect := func(want authorizer.Decision, questions int, about authorizer.Attributes) {
		t.Helper()
		before := asked
		got, _, err := r.Authorize(t.Context(), about)
		assert.Equal(t, want, got)
		assert.Equal(t, fails, err)
		assert.Equal(t, questions, asked-before)
	}
	fails = errors.New("core is away")
	expect(authorizer.DecisionNoOpinion, 1, about(jane, "resources", "east"))
	fails = nil
	expect(authorizer.DecisionNoOpinion, 1, about(jane, "resources", "east"))
	expect(authorizer.DecisionNoOpinion, 0, about(jane, "resources", "east"))
	decision = authorizer.DecisionAllow
	expect(authorizer.DecisionNoOpinion, 0, about(jane, "resources", "east"))
	expect(authorizer.DecisionAllow, 1, about(john, "resources", "east"))
	expect(authorizer.DecisionAllow, 1, about(jane, "resources", "west"))
	expect(authorizer.DecisionAllow, 1, about(jane, "collectionresources", "east"))
	expect(authorizer.DecisionAllow, 1, about(jane, "collectionresources", "east"))
	narrow := about(jane, "resources", "east")
	narrow.LabelSelectorRequirements, _ = labels.ParseToRequirements("team=a")
	expect(authorizer.DecisionAllow, 1, narrow)
	decision = authorizer.DecisionNoOpinion
	expect(authorizer.DecisionNoOpinion, 1, narrow)
	wide, narrow := about(john, "resources", "north"), about(john, "resources", "north")
	narrow.FieldSelectorRequirements = fields.Requirements{{Field: "metadata.name", Operator: selection.Equals, Value: "x"}}
	decision = authorizer.DecisionAllow
	expect(authorizer.DecisionAllow, 1, narrow)
	decision = authorizer.DecisionNoOpinion
	expect(authorizer.DecisionNoOpinion, 1, wide)
	decision = authorizer.DecisionAllow
	clock.Step(rememberedFor + time.Millisecond)
	expect(authorizer.DecisionAllow, 1, about(jane, "resources", "east"))
}
