// Copyright The Tripod Authors.
// SPDX-License-Identifier: Apache-2.0

package trust

import (
	"context"
	"strings"

	utilerrors "k8s.io/apimachinery/pkg/util/errors"
	"k8s.io/apiserver/pkg/authorization/authorizer"
)

// Unconditional is an authorizer whose decisions have no conditions.
type Unconditional interface {
	Authorize(ctx context.Context, attributes authorizer.Attributes) (authorizer.Decision, string, error)
}

// Around returns an authorizer that asks those before, then policy, then those after, until one has an opinion. Unlike a union of
// Kubernetes, it leaves reasons as they are. A union puts the names of its authorizers in front, which clients and audit events would show.
// Only the decisions of policy may have conditions.
func Around(before []Unconditional, policy authorizer.Authorizer, after ...Unconditional) authorizer.Authorizer {
	return &around{before, policy, after}
}

type around struct {
	before []Unconditional
	policy authorizer.Authorizer
	after  []Unconditional
}

// Authorize implements authorizer.Authorizer.
func (a *around) Authorize(ctx context.Context, attributes authorizer.Attributes) (authorizer.Decision, string, error) {
	var all opinions
	for _, each := range a.before {
		if all.add(each.Authorize(ctx, attributes)) {
			return all.decision()
		}
	}
	if all.add(a.policy.Authorize(ctx, attributes)) {
		return all.decision()
	}
	return a.askAfter(ctx, attributes, all)
}

// askAfter returns the decision if no earlier authorizer has an opinion.
func (a *around) askAfter(ctx context.Context, attributes authorizer.Attributes, all opinions) (authorizer.Decision, string, error) {
	for _, each := range a.after {
		if all.add(each.Authorize(ctx, attributes)) {
			return all.decision()
		}
	}
	return authorizer.DecisionNoOpinion, strings.Join(all.reasons, "\n"), utilerrors.NewAggregate(all.errors)
}

// opinions are the answers of authorizers, in their order, up to the first decision.
type opinions struct {
	decided answer
	// reasons and errors are those of authorizers without an opinion.
	reasons []string
	errors  []error
}

// add adds an answer, and reports whether it is a decision.
func (o *opinions) add(decision authorizer.Decision, reason string, err error) bool {
	if decision != authorizer.DecisionNoOpinion {
		o.decided = answer{decision, reason, err}
		return true
	}
	if reason != "" {
		o.reasons = append(o.reasons, reason)
	}
	if err != nil {
		o.errors = append(o.errors, err)
	}
	return false
}

// decision returns the answer that is a decision.
func (o *opinions) decision() (authorizer.Decision, string, error) {
	return o.decided.decision, o.decided.reason, o.decided.err
}
