// Copyright The Tripod Authors.
// SPDX-License-Identifier: Apache-2.0

package apiservices

import (
	"fmt"
	"regexp"
	"slices"
	"strings"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	apiregistrationv1 "k8s.io/kube-aggregator/pkg/apis/apiregistration/v1"
	"k8s.io/kube-aggregator/pkg/apis/apiregistration/v1/helper"

	"github.com/tripod-k8s/tripod/services/aggregator/peers/aggregated"
	"github.com/tripod-k8s/tripod/services/aggregator/upstream"
)

// Conflict is the type of the condition that is True while several backends claim the group-version of an APIService. Otherwise it is not
// there.
const Conflict apiregistrationv1.APIServiceConditionType = "Conflict"

// verdict is a judgement of an APIService.
type verdict struct {
	// kind is the condition that it is for. Without a status, there is no such condition.
	kind            apiregistrationv1.APIServiceConditionType
	status          apiregistrationv1.ConditionStatus
	reason, message string
	// facts are the reasons of the verdict, without the words of errors: these differ at every look.
	facts string
}

// applyTo makes the verdict a condition of an APIService.
func (v *verdict) applyTo(service *apiregistrationv1.APIService) {
	if v.status == "" {
		service.Status.Conditions = slices.DeleteFunc(service.Status.Conditions,
			func(c apiregistrationv1.APIServiceCondition) bool { return c.Type == v.kind })
		return
	}
	helper.SetAPIServiceCondition(service, apiregistrationv1.APIServiceCondition{
		Type: v.kind, Status: v.status, Reason: v.reason, Message: v.message, LastTransitionTime: metav1.Now(),
	})
}

// changing is what differs in an error at every look: the own port of a connection, and the time.
var changing = regexp.MustCompile(`\S+->|\d{4}-\d\d-\d\dT[\d:.]+(Z|[+-]\d\d:\d\d)`)

// cause is the message without what differs at every look.
func (v *verdict) cause() string { return changing.ReplaceAllString(v.message, "") }

// ofClaims judges whether several backends claim a group-version. The message says which do, or is empty.
func ofClaims(message string) verdict {
	v := verdict{kind: Conflict}
	if message != "" {
		v.status, v.reason, v.message, v.facts = apiregistrationv1.ConditionTrue, "ClaimedByOthers", message, message
	}
	return v
}

// passed is what kube-aggregator says when all is well.
func passed() verdict {
	return verdict{kind: apiregistrationv1.Available, status: apiregistrationv1.ConditionTrue, reason: "Passed", message: "all checks passed"}
}

// ofBackend judges a backend. It is false until the verdict is certain. It names failing replicas only if no other is
// ready. Otherwise all APIServices of the backend would change whenever a replica comes or goes.
func ofBackend(name string, replicas []upstream.Replica) (verdict, bool) {
	if slices.ContainsFunc(replicas, isReady) {
		return passed(), true
	}
	if slices.ContainsFunc(replicas, isUnprobed) {
		return verdict{}, false
	}
	v := verdict{kind: apiregistrationv1.Available, status: apiregistrationv1.ConditionFalse, reason: "NoReplicaReady", facts: facts(replicas)}
	v.message = fmt.Sprintf("no replica of %s is ready: %s", name, failures(replicas))
	if len(replicas) == 0 {
		v.message = fmt.Sprintf("no replica of %s is known", name)
	}
	return v, true
}

// ofAggregated judges an aggregated API server. It names failing endpoints even if others are ready.
func ofAggregated(s aggregated.State) (verdict, bool) {
	if s.Problem != nil {
		return verdict{
			kind: apiregistrationv1.Available, status: s.Problem.Status, reason: s.Problem.Reason, message: s.Problem.Message,
			facts: s.Problem.Message,
		}, true
	}
	failing := slices.DeleteFunc(slices.Clone(s.Replicas), func(r upstream.Replica) bool { return isReady(r) || isUnprobed(r) })
	v := passed()
	v.facts = facts(failing)
	switch ready := slices.ContainsFunc(s.Replicas, isReady); {
	case ready && len(failing) > 0:
		v.reason = "SomeEndpointsFail"
		v.message = fmt.Sprintf("%d of %d endpoints fail, the others answer: %s", len(failing), len(s.Replicas), failures(failing))
	case ready:
	case len(failing) < len(s.Replicas) || len(failing) == 0:
		return verdict{}, false
	default:
		v.status, v.reason = apiregistrationv1.ConditionFalse, "FailedDiscoveryCheck"
		v.message = "failing or missing response from " + failures(failing)
	}
	return v, true
}

func isReady(r upstream.Replica) bool    { return r.Ready }
func isUnprobed(r upstream.Replica) bool { return !r.Probed }

func failures(replicas []upstream.Replica) string {
	return joined(replicas, func(r upstream.Replica) string { return r.Address + ": " + r.Message })
}

func facts(replicas []upstream.Replica) string {
	return joined(replicas, func(r upstream.Replica) string { return r.Address + " " + r.State })
}

func joined(replicas []upstream.Replica, text func(upstream.Replica) string) string {
	texts := make([]string, len(replicas))
	for i, r := range replicas {
		texts[i] = text(r)
	}
	return strings.Join(texts, "; ")
}
