// Copyright The Tripod Authors.
// SPDX-License-Identifier: Apache-2.0

package up

import (
	"context"
	"time"

	"github.com/tripod-k8s/tripod/local/process"
	"github.com/tripod-k8s/tripod/local/replicas"
)

// Status is the state of one process of an instance.
type Status struct {
	process.Status
	// Requests is the number of requests that aggregators have sent to a replica of another service, or that an aggregator
	// has sent. It is nil if unknown.
	Requests *int64 `json:"requests,omitempty"`
	// Share is this replica's part of the requests of its service: 0 to 1.
	Share *float64 `json:"share,omitempty"`
}

// statuses returns the states of all processes. It counts requests since the aggregators started, or for a period that
// begins now.
func (i *instance) statuses(ctx context.Context, over time.Duration) []Status {
	if !i.prepared.Load() {
		return nil
	}
	before := requestCounts{}
	if over > 0 {
		before = i.countRequests(ctx)
		select {
		case <-ctx.Done():
		case <-time.After(over):
		}
	}
	counts := i.countRequests(ctx).since(before)
	var statuses []Status
	for _, status := range i.group.Statuses() {
		statuses = append(statuses, Status{Status: status})
	}
	addCounts(statuses, counts)
	return statuses
}

// countRequests asks all aggregators.
func (i *instance) countRequests(ctx context.Context) requestCounts {
	asAdmin, err := replicas.ClientTLS(i.store, clusterCA, admin)
	if err != nil {
		return nil
	}
	var urls []string
	for _, status := range i.group.Statuses() {
		if status.Component == replicas.Aggregator && status.Ready {
			urls = append(urls, status.Address)
		}
	}
	return askForCounts(ctx, asAdmin, urls)
}
