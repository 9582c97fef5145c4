// Copyright The Tripod Authors.
// SPDX-License-Identifier: Apache-2.0

package tokens

import (
	"context"
	"errors"
	"time"

	"k8s.io/apiserver/pkg/audit"
	"k8s.io/apiserver/pkg/authentication/authenticator"
	"k8s.io/apiserver/pkg/warning"

	"github.com/tripod-k8s/tripod/base/hop/envelope"
	identityv1 "github.com/tripod-k8s/tripod/proto/identity/v1"
)

// dependency is an identityv1.Dependency, comparable.
type dependency struct {
	kind identityv1.Dependency_Kind
	id   string
}

func newDependency(message *identityv1.Dependency) dependency {
	return dependency{kind: message.GetKind(), id: message.GetId()}
}

// answer is core's answer about a token. It is shared by requests, and not changed.
type answer struct {
	// response is nil when the token is not good.
	response *authenticator.Response
	// reason says why it is not good. It may be nil.
	reason      error
	annotations map[string]string
	warnings    []*identityv1.Warning

	// freshUntil is when core wants to be asked again.
	freshUntil time.Time
	// ends is when the token ends by itself. Zero is never.
	ends         time.Time
	dependencies []dependency
	// reportsRevocation is whether core would have reported a revocation.
	reportsRevocation bool
	// run and sequence are what core knew when it looked at the token, or less.
	run      string
	sequence uint64
}

// newAnswer reads the message that answers a question sent at asked.
func newAnswer(message *identityv1.AuthenticateResponse, asked time.Time) *answer {
	a := &answer{
		annotations:       message.GetAuditAnnotations(),
		warnings:          message.GetWarnings(),
		freshUntil:        asked.Add(message.GetFreshFor().AsDuration()),
		run:               message.GetRun(),
		sequence:          message.GetSequence(),
		reportsRevocation: message.GetRevocationIsTold(),
	}
	if validFor := message.GetValidFor(); validFor != nil {
		a.ends = asked.Add(validFor.AsDuration())
	}
	for _, d := range message.GetDependencies() {
		if d.GetKind() == identityv1.Dependency_KIND_UNSPECIFIED {
			// Its end would not be noticed.
			a.freshUntil, a.reportsRevocation = asked, false
		}
		a.dependencies = append(a.dependencies, newDependency(d))
	}
	if u := envelope.ToUser(message.GetUser()); u != nil {
		a.response = &authenticator.Response{User: u, Audiences: message.GetAudiences()}
	} else if message.GetError() != "" {
		a.reason = errors.New(message.GetError())
	}
	return a
}

// good reports whether the token is that of a user.
func (a *answer) good() bool {
	return a.response != nil
}

// hasEnded reports whether the token has ended by itself.
func (a *answer) hasEnded(now time.Time) bool {
	return !a.ends.IsZero() && !now.Before(a.ends)
}

// heldAt reports whether the answer held at a time at which it was in the cache. If core reports revocations, it is as good as a fresh
// one.
func (a *answer) heldAt(at time.Time) bool {
	return a.reportsRevocation || at.Before(a.freshUntil)
}

// give answers the request of the context.
func (a *answer) give(ctx context.Context) (*authenticator.Response, bool, error) {
	if len(a.annotations) > 0 {
		audit.AddAuditAnnotationsMap(ctx, a.annotations)
	}
	for _, w := range a.warnings {
		warning.AddWarning(ctx, w.GetAgent(), w.GetText())
	}
	if !a.good() {
		return nil, false, a.reason
	}
	return a.response, true, nil
}
