// Copyright The Tripod Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"errors"
	"fmt"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

func TestAServiceRollsOneReplicaAfterTheOther(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var cores, all atomic.Int32
		var order []string
		began := time.Now()
		r := &roller{
			replicas: map[string][]string{"core": {"core", "core-2", "core-3"}, "aggregator": {"kube-apiserver"}},
			interval: 2 * time.Minute, done: rolls{},
			roll: func(_ context.Context, replica string) error {
				all.Add(1)
				if replica != "kube-apiserver" {
					assert.EqualValues(t, 1, cores.Add(1), "never two of one service at a time")
					defer cores.Add(-1)
					order = append(order, fmt.Sprint(replica, " ", time.Since(began)))
				}
				time.Sleep(20 * time.Second)
				return nil
			},
		}
		total := rolls{"core": 1}
		require.NoError(t, r.during(t.Context(), total, func(context.Context) error {
			time.Sleep(2*time.Minute + 50*time.Second)
			return nil
		}))
		assert.Equal(t, []string{"core 0s", "core-2 20s", "core-3 40s", "core 2m0s", "core-2 2m20s", "core-3 2m40s"}, order)
		assert.Equal(t, "9: aggregator 2, core 7", total.String())
		assert.EqualValues(t, 8, all.Load())
	})
}

func TestSpecsEndIfAReplicaDoesNotBecomeReady(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		unready := errors.New("not ready")
		r := &roller{
			replicas: map[string][]string{"core": {"core"}}, interval: time.Minute, done: rolls{},
			roll: func(context.Context, string) error { return unready },
		}
		err := r.during(t.Context(), rolls{}, func(ctx context.Context) error {
			<-ctx.Done()
			return context.Cause(ctx)
		})
		assert.ErrorIs(t, err, unready)
		assert.ErrorContains(t, err, "roll core")
	})
}
