// Copyright The Tripod Authors.
// SPDX-License-Identifier: Apache-2.0

package linearizability

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"time"

	"github.com/tripod-k8s/tripod/test/framework"
)

// pause is how long a replica does nothing, and recovery how long there is no trouble at most after it is back.
const (
	pause    = requestTimeout + time.Second
	recovery = time.Second
)

// trouble is what happens to a replica.
type trouble struct {
	name  string
	cause func(context.Context, *framework.Replica) error
}

var troubles = []trouble{
	{"killed", func(ctx context.Context, r *framework.Replica) error {
		if err := r.Kill(); err != nil {
			return err
		}
		return start(ctx, r)
	}},
	{"stopped", func(ctx context.Context, r *framework.Replica) error {
		if err := r.Stop(); err != nil {
			return err
		}
		return start(ctx, r)
	}},
	{"paused", func(ctx context.Context, r *framework.Replica) error {
		if err := r.Pause(); err != nil {
			return err
		}
		wait(ctx, pause)
		return r.Resume()
	}},
}

func start(ctx context.Context, r *framework.Replica) error {
	if err := r.Start(); err != nil {
		return err
	}
	return r.WaitReady(ctx)
}

// makeTrouble troubles one replica after the other until the time is over, and at least once in every way. It logs each.
func makeTrouble(ctx context.Context, random *rand.Rand, over <-chan struct{}, replicas []*framework.Replica, tell func(string, ...any)) error {
	first, order := random.IntN(len(replicas)), random.Perm(len(troubles))
	for i := 0; i < len(troubles) || !isClosed(over); i++ {
		r, trouble := replicas[(first+i)%len(replicas)], troubles[order[i%len(troubles)]]
		began := time.Now()
		if err := trouble.cause(ctx, r); err != nil {
			return fmt.Errorf("%s was %s: %w", r.Name, trouble.name, errors.Join(err, context.Cause(ctx)))
		}
		tell("%s was %s, and is back after %.1f s", r.Name, trouble.name, time.Since(began).Seconds())
		wait(ctx, time.Duration(random.Int64N(int64(recovery))))
	}
	return nil
}

func isClosed(c <-chan struct{}) bool {
	select {
	case <-c:
		return true
	default:
		return false
	}
}

func wait(ctx context.Context, d time.Duration) {
	select {
	case <-ctx.Done():
	case <-time.After(d):
	}
}
