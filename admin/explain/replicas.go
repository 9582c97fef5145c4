// Copyright The Tripod Authors.
// SPDX-License-Identifier: Apache-2.0

package explain

import (
	"cmp"
	"context"
	"fmt"
	"slices"

	dto "github.com/prometheus/client_model/go"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/client-go/kubernetes"

	"github.com/tripod-k8s/tripod/admin/view"
	"github.com/tripod-k8s/tripod/services/aggregator/upstream"
)

// ejected is the last state in which a replica may get requests because it serves. Those of later states get some only because the checks
// may be wrong.
const ejected = "ejected"

// ReplicaState counts the replicas of a service in a state, as one aggregator sees them.
type ReplicaState struct {
	State string `json:"state"`
	Count int    `json:"count"`
	// Candidate is whether the aggregator sends requests to them now.
	Candidate bool `json:"candidate"`
}

// Replicas returns the states of the replicas of a service in the view of the aggregator that answers, which needs the right to read its
// metrics. Without it, note says where the states are. A request to several aggregators may be answered by another one.
func Replicas(ctx context.Context, client kubernetes.Interface, service string) (states []ReplicaState, note string, err error) {
	stream, err := client.Discovery().RESTClient().Get().AbsPath("/metrics").Param("name[]", view.Endpoints).Stream(ctx)
	switch {
	case apierrors.IsForbidden(err):
		return nil, "You may not read /metrics of the aggregator, whose " + view.Endpoints + " has the states of replicas.", nil
	case err != nil:
		return nil, "", fmt.Errorf("cannot read the metrics of the aggregator: %w", err)
	}
	defer stream.Close() //nolint:errcheck // it was only read
	families, err := view.Families(stream, view.Endpoints)
	if err != nil {
		return nil, "", fmt.Errorf("cannot read the metrics of the aggregator: %w", err)
	}
	if families[view.Endpoints] == nil {
		return nil, "The API server has no metric " + view.Endpoints + ", as aggregators of Tripod do.", nil
	}
	return statesOf(families[view.Endpoints], service), "", nil
}

// statesOf returns the states that a service has replicas in, in the order in which the aggregator prefers them.
func statesOf(family *dto.MetricFamily, service string) (states []ReplicaState) {
	counts := map[string]int{}
	for _, metric := range family.GetMetric() {
		state, count := view.Label(metric, view.State), int(metric.GetGauge().GetValue())
		if view.Label(metric, view.Backend) == service && count > 0 {
			counts[state] = count
			states = append(states, ReplicaState{State: state, Count: count})
		}
	}
	next, rank := Preferred(counts)
	slices.SortFunc(states, func(a, b ReplicaState) int {
		return cmp.Or(cmp.Compare(rank(a.State), rank(b.State)), cmp.Compare(a.State, b.State))
	})
	if len(states) > 0 && next != "" && states[0].State == next {
		states[0].Candidate = true
	}
	return states
}

// Preferred returns the state whose replicas get the next requests, by the number of replicas in each, or none if an aggregator would use
// a replica only because its checks may be wrong. Rank orders states by how an aggregator prefers them.
func Preferred(counts map[string]int) (next string, rank func(state string) int) {
	preference := upstream.States(func(state string) int { return counts[state] })
	preference = preference[:slices.Index(preference, ejected)+1]
	if at := slices.IndexFunc(preference, func(state string) bool { return counts[state] > 0 }); at >= 0 {
		next = preference[at]
	}
	return next, func(state string) int {
		if at := slices.Index(preference, state); at >= 0 {
			return at
		}
		return len(preference)
	}
}
