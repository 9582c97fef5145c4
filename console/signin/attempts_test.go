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
		assert.Nil(t, a.slow(connections.NetworkOf("192.0.2.7:1")), "failures are forgiven")

		for i := range 3 * maxNetworks {
			a.failed(connections.NetworkOf(fmt.Sprintf("10.%d.%d.%d:1", i>>16, i>>8&255, i&255)))
		}
		assert.LessOrEqual(t, len(a.networks), maxNetworks)
	})
}

func TestASlowNetworkLeavesPlacesToOthers(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		a := newAttempts()
		a.fail(t, "192.0.2.7:1")
		ctx, cancel := context.WithCancel(t.Context())
		begun, ended := make(chan func(bool), 100), make(chan error, 100)
		for range slowAttempts + waitingAttempts {
			go func() {
				end, err := a.begin(ctx, connections.NetworkOf("192.0.2.7:1"))
				if err == nil {
					begun <- end
				}
				ended <- err
			}()
		}
		synctest.Wait()
		assert.Len(t, begun, slowAttempts, "the others wait")
		_, err := a.begin(ctx, connections.NetworkOf("192.0.2.7:1"))
		require.ErrorIs(t, err, access.ErrBusy, "too many wait")
		other, err := a.begin(ctx, connections.NetworkOf("192.0.2.8:1"))
		require.NoError(t, err)
		other(false)
		(<-begun)(false)
		synctest.Wait()
		assert.Len(t, begun, slowAttempts, "one more")
		cancel()
		synctest.Wait()
		assert.Len(t, ended, slowAttempts+waitingAttempts, "none waits for a browser that is gone")
		for range slowAttempts {
			(<-begun)(false)
		}
	})
}
