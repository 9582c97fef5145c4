// Copyright The Tripod Authors.
// SPDX-License-Identifier: Apache-2.0

package upstream

import (
	"net/http"
	"sync/atomic"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/tripod-k8s/tripod/base/hop/connectionstest"
	"github.com/tripod-k8s/tripod/services/aggregator/routing"
)

func TestAReplicaThatIsHeldBackGetsRequestsOnlyIfNoOtherServes(t *testing.T) {
	pki := connectionstest.NewPKI(t)
	var counts [2]atomic.Int64
	count := func(i int) http.HandlerFunc {
		return func(http.ResponseWriter, *http.Request) { counts[i].Add(1) }
	}
	fits, held := serve(t, pki, count(0)), serve(t, pki, count(1))
	b := newBackend(t, pki, fits, held)
	send := func(want ...int64) {
		t.Helper()
		const requests = 20
		before := [2]int64{counts[0].Load(), counts[1].Load()}
		for range requests {
			resp, err := b.RoundTrip(classified(t, newRequest(t, http.MethodGet, ""), routing.Target{Owner: routing.Core}))
			require.NoError(t, err)
			require.NoError(t, resp.Body.Close())
		}
		assert.Equal(t, want, []int64{(counts[0].Load() - before[0]) * 100 / requests, (counts[1].Load() - before[1]) * 100 / requests}, "percent")
	}
	b.find(fits, ready)
	b.SetHeldBack(held, true)
	b.find(held, ready)
	send(100, 0)
	b.find(fits, unready)
	send(0, 100)
	ok, why := b.Ready()
	assert.True(t, ok, why)
	b.find(fits, ready)
	send(100, 0)
	// One that is about to stop answers 429 soon.
	b.SetDraining(fits, true)
	send(0, 100)
	b.SetDraining(fits, false)
	send(100, 0)
	b.SetHeldBack(held, false)
	b.SetHeldBack(fits, true)
	send(0, 100)
	b.SetHeldBack("127.0.0.1:1", true) // it is no replica any more
}

// TestReplicasAreAllHeldBack has two that retry for one another as if they were not held back.
func TestReplicasAreAllHeldBack(t *testing.T) {
	pki := connectionstest.NewPKI(t)
	throttled := serve(t, pki, func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Retry-After", "1")
		w.WriteHeader(http.StatusTooManyRequests)
	})
	var count atomic.Int64
	other := serve(t, pki, func(http.ResponseWriter, *http.Request) { count.Add(1) })
	b := newBackend(t, pki, throttled, other)
	for _, address := range []string{throttled, other} {
		b.find(address, ready)
		b.SetHeldBack(address, true)
	}
	const requests = 20
	send := func() (status map[int]int) {
		status = map[int]int{}
		for range requests {
			resp, err := b.RoundTrip(classified(t, newRequest(t, http.MethodGet, ""), routing.Target{Owner: routing.Core}))
			require.NoError(t, err)
			require.NoError(t, resp.Body.Close())
			status[resp.StatusCode]++
		}
		return status
	}
	assert.Equal(t, map[int]int{http.StatusOK: requests}, send())
	assert.EqualValues(t, requests, count.Load())
	for _, address := range []string{throttled, other} {
		assert.False(t, b.isHeldBack(address), "others get no requests")
	}

	// The throttled one fits, and its users wait for their turn there.
	b.SetHeldBack(throttled, false)
	assert.Equal(t, map[int]int{http.StatusTooManyRequests: requests}, send())
	assert.True(t, b.isHeldBack(other))
	// It is about to stop.
	b.SetDraining(throttled, true)
	assert.Equal(t, map[int]int{http.StatusOK: requests}, send())
}
