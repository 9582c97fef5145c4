// Copyright The Tripod Authors.
// SPDX-License-Identifier: Apache-2.0

package signin

import (
	"context"
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/tripod-k8s/tripod/console/access"
	"github.com/tripod-k8s/tripod/console/connections"
)

// slow returns whether a network fails too often.
func (a *attempts) slow(client string) bool {
	a.mu.Lock()
	defer a.mu.Unlock()
	of := a.networks[connections.NetworkOf(client)]
	return of != nil && of.isSlow()
}

// fail makes a network slow.
func (a *attempts) fail(t *testing.T, client string) {
	t.Helper()
	for range maxFailures {
		end, err := a.begin(t.Context(), connections.NetworkOf(client))
		require.NoError(t, err)
		end(true)
	}
}

func TestFailuresMakeANetworkSlow(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		a, began := newAttempts(), time.Now()
		a.fail(t, "192.0.2.7:1")
		assert.Zero(t, time.Since(began), "a team may fail so often at once")
		for range 10 {
			end, err := a.begin(t.Context(), connections.NetworkOf("192.0.2.7:2"))
			require.NoError(t, err, "more failures refuse nothing")
			end(true)
		}
		assert.Equal(t, 10/slowAttempts*failurePause-failurePause, time.Since(began), "each has a place for a while")
		time.Sleep(failurePause)
		began = time.Now()
		for range 100 {
			end, err := a.begin(t.Context(), connections.NetworkOf("192.0.2.7:3"))
			require.NoError(t, err)
			end(false)
			end, err = a.begin(t.Context(), connections.NetworkOf("192.0.2.8:1"))
			require.NoError(t, err)
			end(false)
		}
		assert.Zero(t, time.Since(began), "a correct credential does not wait, and another network has not failed")
		time.Sleep(time.Minute)
		assert.False(t, a.slow("192.0.2.7:1"), "failures are forgiven")
		assert.Len(t, a.networks, 1, "a network that has not failed is forgotten")

		begun, err := a.begin(t.Context(), connections.NetworkOf("192.0.2.9:1"))
		require.NoError(t, err)
		for i := range 3 * maxNetworks {
			end, err := a.begin(t.Context(), connections.NetworkOf(fmt.Sprintf("10.%d.%d.%d:1", i>>16, i>>8&255, i&255)))
			require.NoError(t, err)
			end(true)
		}
		assert.LessOrEqual(t, len(a.networks), maxNetworks)
		assert.Contains(t, a.networks, connections.NetworkOf("192.0.2.9:1"), "it has an attempt")
		begun(false)
	})
}

// many has a network begin attempts at once until one is refused. It returns those that have begun, and the results of all others, too.
func (a *attempts) many(ctx context.Context, t *testing.T, client string) (begun chan func(bool), ended chan error) {
	t.Helper()
	begun, ended = make(chan func(bool), 100), make(chan error, 100)
	for range attemptsOfNetwork + waitingAttempts {
		go func() {
			end, err := a.begin(ctx, connections.NetworkOf(client))
			if err == nil {
				begun <- end
			}
			ended <- err
		}()
	}
	synctest.Wait()
	_, err := a.begin(ctx, connections.NetworkOf(client))
	require.ErrorIs(t, err, access.ErrBusy, "too many wait")
	return begun, ended
}

func TestASlowNetworkLeavesPlacesToOthers(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		a := newAttempts()
		a.fail(t, "192.0.2.7:1")
		ctx, cancel := context.WithCancel(t.Context())
		begun, ended := a.many(ctx, t, "192.0.2.7:1")
		assert.Len(t, begun, slowAttempts, "the others wait")
		other, err := a.begin(ctx, connections.NetworkOf("192.0.2.8:1"))
		require.NoError(t, err)
		other(false)
		(<-begun)(false)
		synctest.Wait()
		assert.Len(t, begun, slowAttempts, "one more")
		cancel()
		synctest.Wait()
		assert.Len(t, ended, attemptsOfNetwork+waitingAttempts, "none waits for a browser that is gone")
		for range slowAttempts {
			(<-begun)(false)
		}
	})
}

// TestANetworkLeavesPlacesToOthers has networks send many wrong tokens at once, before any of them has failed once too often.
func TestANetworkLeavesPlacesToOthers(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		a := newAttempts()
		a.fail(t, "192.0.2.7:1")
		time.Sleep(failureInterval)
		require.False(t, a.slow("192.0.2.7:1"), "it may fail once more")
		ctx, cancel := context.WithCancel(t.Context())
		first, _ := a.many(ctx, t, "192.0.2.7:1")
		assert.Len(t, first, attemptsOfNetwork)
		other, err := a.begin(ctx, connections.NetworkOf("192.0.2.8:1"))
		require.NoError(t, err)
		other(false)

		second, _ := a.many(ctx, t, "192.0.2.9:1")
		third, _ := a.many(ctx, t, "192.0.2.10:1")
		assert.Len(t, second, attemptsOfNetwork, "all places are taken")
		assert.Empty(t, third)
		entered := make(chan error)
		go func() {
			end, err := a.begin(ctx, connections.NetworkOf("192.0.2.8:1"))
			if err == nil {
				end(false)
			}
			entered <- err
		}()
		synctest.Wait()
		for range attemptsOfNetwork {
			(<-first)(true)
		}
		synctest.Wait()
		assert.Empty(t, first, "the next ones of the network wait behind those of others")
		for range attemptsOfNetwork {
			(<-third)(true)
		}
		require.NoError(t, <-entered, "it has waited no longer than those before it")
		cancel()
		for _, begun := range []chan func(bool){first, second, third} {
			synctest.Wait()
			for len(begun) > 0 {
				(<-begun)(false)
			}
		}
	})
}
