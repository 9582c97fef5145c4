// Copyright The Tripod Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"sync"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/tripod-k8s/tripod/e2e/progress"
)

// rollInterval is the time between the beginnings of two rolls of a service.
const rollInterval = 2 * time.Minute

// rolls counts the restarts of the replicas of each service.
type rolls map[string]int

// String returns counts such as "30: aggregator 8, core 15, extensions 7".
func (r rolls) String() string {
	total := 0
	var parts []string
	for _, service := range slices.Sorted(maps.Keys(r)) {
		total += r[service]
		parts = append(parts, fmt.Sprintf("%s %d", service, r[service]))
	}
	return fmt.Sprintf("%d: %s", total, strings.Join(parts, ", "))
}

// roller rolls all services, each as `tripod static-pods` and a Deployment do: one replica after the other.
type roller struct {
	replicas map[string][]string
	interval time.Duration
	// roll restarts a replica and returns when it is ready again.
	roll func(ctx context.Context, replica string) error

	mu   sync.Mutex
	done rolls
}

// run rolls until the context ends, or a replica does not become ready.
func (r *roller) run(ctx context.Context) error {
	var services errgroup.Group
	for service, replicas := range r.replicas {
		services.Go(func() error { return r.rollService(ctx, service, replicas) })
	}
	if err := services.Wait(); ctx.Err() == nil {
		return err
	}
	return nil
}

// rollService rolls a service at once, and then in each interval. If that takes longer than an interval, the next roll begins at once.
func (r *roller) rollService(ctx context.Context, service string, replicas []string) error {
	turn := time.NewTicker(r.interval)
	defer turn.Stop()
	for {
		for _, replica := range replicas {
			began := time.Now()
			if err := r.roll(ctx, replica); err != nil {
				return fmt.Errorf("roll %s: %w", replica, err)
			}
			progress.Printf("rolled %s in %s", replica, time.Since(began).Round(time.Second))
			r.mu.Lock()
			r.done[service]++
			r.mu.Unlock()
		}
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-turn.C:
		}
	}
}

// during rolls while do runs, and adds the rolls to total. If a replica does not become ready, it ends the context of do.
func (r *roller) during(ctx context.Context, total rolls, do func(context.Context) error) error {
	ctx, cancel := context.WithCancelCause(ctx)
	rolled := make(chan error, 1)
	go func() {
		err := r.run(ctx)
		if err != nil {
			cancel(err)
		}
		rolled <- err
	}()
	err := do(ctx)
	cancel(nil)
	err = errors.Join(err, <-rolled)
	for service, count := range r.done {
		total[service] += count
	}
	return err
}
