// Copyright The Tripod Authors.
// SPDX-License-Identifier: Apache-2.0

package trust

import (
	"bytes"
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"reflect"
	"time"

	"k8s.io/apiserver/pkg/authentication/user"
	"k8s.io/apiserver/pkg/authorization/authorizer"
	genericapifilters "k8s.io/apiserver/pkg/endpoints/filters"
	"k8s.io/apiserver/pkg/endpoints/request"

	identityv1 "github.com/tripod-k8s/tripod/proto/identity/v1"
)

// Decide returns the decision of an authorizer about the request of a context, for the envelope of the request. An envelope carries no
// conditions, so Decide returns nil if it depends on conditions whether the request is allowed. The service that admits the object then
// asks its own authorizer.
func Decide(ctx context.Context, decides authorizer.Authorizer) (*identityv1.Decision, error) {
	attributes, err := genericapifilters.GetAuthorizerAttributes(ctx)
	if err != nil {
		return nil, err
	}
	verdict, reason, err := decides.Authorize(ctx, attributes)
	if verdict != authorizer.DecisionAllow && mayAllow(ctx, decides, attributes) {
		return nil, nil
	}
	decision := &identityv1.Decision{Verdict: identityv1.Decision_VERDICT_NO_OPINION, Reason: reason, Question: Question(attributes)}
	switch verdict {
	case authorizer.DecisionAllow:
		decision.Verdict = identityv1.Decision_VERDICT_ALLOW
	case authorizer.DecisionDeny:
		decision.Verdict = identityv1.Decision_VERDICT_DENY
	}
	if err != nil {
		decision.Error = err.Error()
	}
	return decision, nil
}

// Decided returns an authorizer that repeats the aggregator's decision about a request in its envelope. It asks next about everything else:
// what the request does besides, such as impersonation, and requests that did not come through the aggregator. It also asks next about a
// request that has waited since, such as in a queue of priority and fairness: the policy may be another one now.
func Decided(next authorizer.Authorizer) authorizer.Authorizer { return decided{next} }

type decided struct{ next authorizer.Authorizer }

// Authorize implements authorizer.Authorizer.
func (d decided) Authorize(ctx context.Context, attributes authorizer.Attributes) (authorizer.Decision, string, error) {
	if received := receivedDecision(ctx, attributes); received != nil {
		return received.decision, received.reason, received.err
	}
	return d.next.Authorize(ctx, attributes)
}

// answer is the answer of an authorizer.
type answer struct {
	decision authorizer.Decision
	reason   string
	err      error
}

// receivedDecision returns the aggregator's decision about these attributes, from the envelope of a request. It returns nil if that does
// not count.
func receivedDecision(ctx context.Context, attributes authorizer.Attributes) *answer {
	from, _ := ctx.Value(senderKey{}).(sender)
	sent := from.envelope.GetDecision()
	if sent == nil || hasWaited(ctx) || !isAbout(ctx, attributes, from.user) || !bytes.Equal(sent.GetQuestion(), Question(attributes)) {
		return nil
	}
	result := &answer{decision: authorizer.DecisionNoOpinion, reason: sent.GetReason()}
	if sent.GetError() != "" {
		result.err = errors.New(sent.GetError())
	}
	switch sent.GetVerdict() {
	case identityv1.Decision_VERDICT_ALLOW:
		result.decision = authorizer.DecisionAllow
	case identityv1.Decision_VERDICT_DENY:
		result.decision = authorizer.DecisionDeny
	}
	return result
}

// maxWait is how long a request may have waited in this process for a decision about it to count.
const maxWait = time.Second

func hasWaited(ctx context.Context) bool {
	received, known := request.ReceivedTimestampFrom(ctx)
	return known && time.Since(received) > maxWait
}

// Question returns a digest of everything that attributes ask, except for the user. The aggregator and the service each read the request.
// Where they read it differently, as two versions of Kubernetes may, the aggregator has decided about something else.
func Question(asked authorizer.Attributes) []byte {
	digest := sha256.New()
	fmt.Fprintf(digest, "%q %q %q %q %q %q %q %t %q", asked.GetVerb(), asked.GetAPIGroup(), asked.GetAPIVersion(), asked.GetResource(),
		asked.GetSubresource(), asked.GetNamespace(), asked.GetName(), asked.IsResourceRequest(), asked.GetPath())
	byField, err := asked.GetFieldSelector()
	fmt.Fprintf(digest, " fields %t", err != nil)
	for _, requirement := range byField {
		fmt.Fprintf(digest, " %q %q %q", requirement.Field, requirement.Operator, requirement.Value)
	}
	byLabel, err := asked.GetLabelSelector()
	fmt.Fprintf(digest, " labels %t", err != nil)
	for _, requirement := range byLabel {
		fmt.Fprintf(digest, " %q", requirement.String())
	}
	return digest.Sum(nil)
}

// isAbout reports whether attributes are those of the request itself, as its sender sent it.
func isAbout(ctx context.Context, attributes authorizer.Attributes, from user.Info) bool {
	if from == nil || attributes.GetUser() != from {
		return false // another user: the one whom the sender impersonates
	}
	own, err := genericapifilters.GetAuthorizerAttributes(ctx)
	return err == nil && reflect.DeepEqual(own, attributes)
}
