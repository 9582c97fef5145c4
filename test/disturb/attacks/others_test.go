// Copyright The Tripod Authors.
// SPDX-License-Identifier: Apache-2.0

package attacks

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"k8s.io/client-go/rest"

	"github.com/tripod-k8s/tripod/test/framework"
	"github.com/tripod-k8s/tripod/test/framework/traffic"
)

// others are well-behaved clients.
type others struct {
	client    *traffic.Client
	namespace string
	// undisturbed is the 99th percentile of their requests before the attack.
	undisturbed time.Duration
	// ended counts their watches that ended.
	ended atomic.Int64
	// stalls is the value of stalls before the attack.
	stalls int
}

func newOthers(t *testing.T) *others {
	t.Helper()
	o := &others{client: traffic.NewClient(t, fleet.Admin(), 4), namespace: framework.CreateNamespace(t, fleet.Cluster), stalls: stalls(t)}
	for range 10 {
		o.watch(t)
	}
	stop := o.work(t)
	time.Sleep(inFull(10*time.Second, time.Second))
	o.undisturbed = stop()
	return o
}

// during lets them work during an attack. They must get every answer, their watches must not end, and the aggregator must stay within its memory.
// It only prints how long they wait, because attackers and services share the processors.
func (o *others) during(t *testing.T, attack func()) {
	t.Helper()
	resetPeak(t)
	before := peak(t)
	stop := o.work(t)
	attack()
	disturbed := stop()
	t.Logf("99 of 100 requests of others took at most %s, and %s before; the aggregator had %d MiB, and %d before",
		disturbed.Round(time.Millisecond/10), o.undisturbed.Round(time.Millisecond/10), peak(t)/mebi, before/mebi)
	assert.LessOrEqual(t, peak(t)/mebi, memory/mebi, "MiB that the aggregator had")
	assert.Zero(t, count(t, "core-0", "ENHANCE_YOUR_CALM"), "connections that core closed because of resets")
	if stalls(t) == o.stalls {
		assert.Zero(t, o.ended.Load(), "watches of others that ended")
	}
}

// watch watches their objects until the test ends.
func (o *others) watch(t *testing.T) {
	t.Helper()
	client, err := rest.HTTPClientFor(fleet.Admin())
	require.NoError(t, err)
	req, err := http.NewRequestWithContext(t.Context(), http.MethodGet, fleet.Admin().Host+traffic.ConfigMaps.Collection(o.namespace)+"?watch=true", nil)
	require.NoError(t, err)
	resp, err := client.Do(req)
	require.NoError(t, err)
	require.Equal(t, http.StatusOK, resp.StatusCode)
	go func() {
		defer resp.Body.Close()
		if _, err := io.Copy(io.Discard, resp.Body); t.Context().Err() == nil {
			o.ended.Add(1)
			t.Logf("a watch of others ended: %v", err)
		}
	}()
}

// work lets them read and write until stop, which returns the 99th percentile of their requests. If a replica gets no processor time for seconds,
// the aggregator treats it as frozen, and rejects requests.
func (o *others) work(t *testing.T) (stop func() time.Duration) {
	ctx, cancel := context.WithCancel(t.Context())
	var working sync.WaitGroup
	var mu sync.Mutex
	var took []time.Duration
	var failed []error
	collection := traffic.ConfigMaps.Collection(o.namespace)
	for range 4 {
		name := framework.UniqueName("a")
		o.client.Need(t, http.MethodPost, collection, traffic.ConfigMaps.Object(name, "0", ""))
		working.Go(func() {
			for n := 0; n == 0 || ctx.Err() == nil; n++ {
				method, body := http.MethodPut, traffic.ConfigMaps.Object(name, fmt.Sprint(n), "")
				if n%4 > 0 {
					method, body = http.MethodGet, nil
				}
				a, err := o.client.Send(t.Context(), method, collection+"/"+name, body)
				if err == nil {
					err = a.Expect(http.StatusOK)
				}
				mu.Lock()
				took = append(took, a.Ended.Sub(a.Began))
				if err != nil {
					failed = append(failed, err)
				}
				mu.Unlock()
				time.Sleep(10 * time.Millisecond) // at most 400 requests per second
			}
		})
	}
	return func() time.Duration {
		cancel()
		working.Wait()
		if stalls(t) == o.stalls {
			assert.Empty(t, failed, "of %d requests these failed", len(took))
		} else {
			t.Logf("a replica had no processor time for seconds: %d of %d requests failed", len(failed), len(took))
		}
		slices.Sort(took)
		return took[len(took)*99/100]
	}
}
