// Copyright The Tripod Authors.
// SPDX-License-Identifier: Apache-2.0

package dataplane

import (
	"context"
	"fmt"
	"math"
	"net/http"
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/tripod-k8s/tripod/test/framework"
	"github.com/tripod-k8s/tripod/test/framework/traffic"
)

const (
	// sample is how many reads are enough to distinguish shares from chance.
	sample = 4000
	// tolerance is how far a share may be from the others.
	tolerance = 0.15
	// untilFair is how many reads clients may have until the shares are equal: a replica may have to fill its caches, or
	// stand still for a moment on a machine that is busy with something else.
	untilFair = 8 * sample
)

var cores = []string{"core-0", "core-1", "core-2"}

func TestReplicasShareTheRequests(t *testing.T) {
	fleet.need(t, "core-0", "core-1", "core-2", "extensions-0", "extensions-1")
	path := createConfigMap(t)
	before, began := served(t), time.Now()
	load := readAllTheTime(t, path)
	load.awaitFair(t)
	load.stop(t)
	reads := load.count.Load()
	measured(t, "read", time.Since(began)/time.Duration(reads))
	framework.Eventually(t, "replicas have counted the requests", func(context.Context) error {
		if _, sum := divide(before, served(t)); sum != float64(reads) {
			return fmt.Errorf("there were %d reads, and replicas have served %.0f", reads, sum)
		}
		return nil
	})
}

func TestAReplicaThatIsAddedTakesItsShare(t *testing.T) {
	fleet.need(t, "core-0", "core-1", "extensions-0", "extensions-1")
	load := readAllTheTime(t, createConfigMap(t))
	fleet.start(t, "core-2")
	fleet.awaitReady(t, "core-2")
	ready := time.Now()
	fleet.awaitServing(t)
	measured(t, "used", time.Since(ready))
	load.awaitFair(t)
	measured(t, "fair", time.Since(ready))
	load.stop(t)
}

// awaitFair returns when the replicas of core have equal shares of the reads.
func (r *readers) awaitFair(t testing.TB) {
	t.Helper()
	for n := 0; ; n += sample {
		before := served(t)
		r.await(t, sample)
		shares, reads := divide(before, served(t))
		t.Logf("shares of %.0f reads: %.3f", reads, shares)
		if fair(shares) {
			return
		}
		if n >= untilFair {
			t.Fatal("the shares do not become equal")
		}
	}
}

// createConfigMap makes an object to read and returns its path.
func createConfigMap(t testing.TB) string {
	t.Helper()
	namespace := framework.CreateNamespace(t, fleet.Cluster)
	traffic.NewClient(t, fleet.Cluster.Admin(), 1).Need(t, http.MethodPost, traffic.ConfigMaps.Collection(namespace), traffic.ConfigMaps.Object("a", "0", ""))
	return traffic.ConfigMaps.Path(namespace, "a")
}

// served returns how many ConfigMaps each replica of core has served to readers, by its metrics.
func served(t testing.TB) []float64 {
	t.Helper()
	counts := make([]float64, len(cores))
	for i, replica := range cores {
		if !fleet.running[replica] {
			continue
		}
		n, err := fleet.Metric(t.Context(), replica, "apiserver_request_total", "resource=configmaps", "verb=GET")
		require.NoError(t, err)
		counts[i] = n
	}
	return counts
}

// divide returns the share of each replica in what was counted since, and the sum.
func divide(before, after []float64) (shares []float64, sum float64) {
	shares = make([]float64, len(after))
	for i := range after {
		shares[i] = after[i] - before[i]
		sum += shares[i]
	}
	for i := range shares {
		shares[i] /= sum
	}
	return shares, sum
}

// fair returns whether no share is far from that of the others.
func fair(shares []float64) bool {
	return !slices.ContainsFunc(shares, func(share float64) bool {
		return math.Abs(share*float64(len(shares))-1) > tolerance
	})
}
