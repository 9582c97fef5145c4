// Copyright The Tripod Authors.
// SPDX-License-Identifier: Apache-2.0

package apiservices

import (
	"fmt"
	"slices"
	"strings"

	apiregistrationv1 "k8s.io/kube-aggregator/pkg/apis/apiregistration/v1"

	"github.com/tripod-k8s/tripod/services/aggregator/peers/aggregated"
	"github.com/tripod-k8s/tripod/services/aggregator/upstream"
)

// verdict is a judgement of the server of an APIService.
type verdict struct {
	status          apiregistrationv1.ConditionStatus
	reason, message string
	// facts are the reasons of the verdict, without the words of errors: these differ at every look.
	facts string
}

// passed is what kube-aggregator says when all is well.
func passed() verdict {
	return verdict{status: apiregistrationv1.ConditionTrue, reason: "Passed", message: "all checks passed"}
}

// ofBackend judges core or extensions. It is false until the verdict is certain. It names failing replicas only if no other is
// ready. Otherwise all APIServices of the backend would change whenever a replica comes or goes.
func ofBackend(name string, replicas []upstream.Replica) (verdict, bool) {
	if slices.ContainsFunc(replicas, isReady) {
		return passed(), true
	}
	if slices.ContainsFunc(replicas, isUnprobed) {
		return verdict{}, false
	}
	v := verdict{status: apiregistrationv1.ConditionFalse, reason: "NoReplicaReady", facts: facts(replicas)}
	v.message = fmt.Sprintf("no replica of %s is ready: %s", name, failures(replicas))
	if len(replicas) == 0 {
		v.message = fmt.Sprintf("no replica of %s is known", name)
	}
	return v, true
}

// ofAggregated judges an aggregated API server. It names failing endpoints even if others are ready.
func ofAggregated(s aggregated.State) (verdict, bool) {
	if s.Problem != nil {
		return verdict{status: s.Problem.Status, reason: s.Problem.Reason, message: s.Problem.Message, facts: s.Problem.Message}, true
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
