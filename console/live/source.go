// Copyright The Tripod Authors.
// SPDX-License-Identifier: Apache-2.0

package live

import (
	"context"
	"errors"
	"net/http"
	"slices"
	"time"

	"github.com/tripod-k8s/tripod/admin/view"
	"github.com/tripod-k8s/tripod/console/searchclient"
	"github.com/tripod-k8s/tripod/local/process"
	"github.com/tripod-k8s/tripod/local/up"
	"github.com/tripod-k8s/tripod/services/list"
)

// Source is what a follower follows. A follower uses it for one question at a time.
type Source interface {
	// Observe returns the present state, with the events after a number. It returns ErrRefused if the user may not see the state any more.
	Observe(ctx context.Context, after int64) (*up.Observation, error)
	// Interval is the time from the last question to the next.
	Interval() time.Duration
}

// ErrRefused is returned by a source whose user may not see what it observes.
var ErrRefused = errors.New("you may not read /metrics of the aggregator, which has the states of replicas")

const (
	// interval is that of all sources: a change shows within a second. Slow answers of an aggregator take at most a part of 1/aggregatorCost
	// of the time.
	interval              = time.Second
	maxAggregatorInterval = 30 * time.Second
	aggregatorCost        = 10
	// refusedInterval is longer: each refusal is in the audit log of the cluster.
	refusedInterval = 10 * time.Second
	// aggregatorTimeout bounds an answer.
	aggregatorTimeout = 5 * time.Second
	// maxSeen bounds the replicas of an aggregator that a user sees.
	maxSeen = 200
)

// Instance observes an instance on this machine.
type Instance func(ctx context.Context, after int64) (*up.Observation, error)

// Observe returns the state of the instance.
func (i Instance) Observe(ctx context.Context, after int64) (*up.Observation, error) {
	return i(ctx, after)
}

// Interval is a second.
func (Instance) Interval() time.Duration { return interval }

// Aggregator observes a cluster by the metrics of the aggregator that answers, with the credentials of a client.
type Aggregator struct {
	client   *searchclient.Client
	interval time.Duration
}

// NewAggregator returns the source of the cluster of a client.
func NewAggregator(client *searchclient.Client) *Aggregator { return &Aggregator{client: client} }

// Interval is a second, and longer after slow answers.
func (a *Aggregator) Interval() time.Duration { return a.interval }

// Observe returns the view of an aggregator. The one process that it knows is its own. The question goes on if the page has left: another
// page gets the answer, and a browser that leaves early cannot cause more questions.
func (a *Aggregator) Observe(ctx context.Context, _ int64) (*up.Observation, error) {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), aggregatorTimeout)
	defer cancel()
	began := time.Now()
	seen, err := a.read(ctx)
	a.interval = min(max(interval, aggregatorCost*time.Since(began)), maxAggregatorInterval)
	refused := (*searchclient.Error)(nil)
	if errors.As(err, &refused) && (refused.Code == http.StatusForbidden || refused.Code == http.StatusUnauthorized) {
		a.interval, err = refusedInterval, ErrRefused
	}
	if err != nil {
		return nil, err
	}
	seen.Address = a.client.Server()
	slices.SortStableFunc(seen.Replicas, func(x, y view.Replica) int { return floorOf(x.Backend) - floorOf(y.Backend) })
	kept := min(len(seen.Replicas), maxSeen) // those of Tripod's own services come first
	seen.LeftOff += len(seen.Replicas) - kept
	seen.Replicas = slices.Clone(seen.Replicas[:kept])
	return &up.Observation{
		Time: seen.Time, Aggregators: []view.Aggregator{*seen}, Differences: seen.Process.Differences,
		Processes: []process.Status{{
			Component: list.Aggregator, Replica: list.Aggregator, Address: seen.Address, Ready: true, Restarts: -1, Version: seen.Process.Version,
			StartTime: seen.Process.Started, CPUSeconds: seen.Process.CPUSeconds, ResidentMemoryBytes: seen.Process.ResidentMemoryBytes,
		}},
	}, nil
}

func (a *Aggregator) read(ctx context.Context) (*view.Aggregator, error) {
	parameters := view.Parameters(slices.Concat(view.OfReplicas, view.OfProcess)...)
	text, err := a.client.Stream(ctx, "/metrics", parameters, "text/plain;version=0.0.4")
	if err != nil {
		return nil, err
	}
	defer text.Close() //nolint:errcheck // it was only read
	return view.Read(text)
}
