// Copyright The Tripod Authors.
// SPDX-License-Identifier: Apache-2.0

package dataplane

import (
	"context"
	"fmt"
	"math"
	"net/http"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/tripod-k8s/tripod/test/framework"
)

const (
	// readers is how many clients read all the time.
	readers = 64
	// sample is how many reads are enough to tell shares from chance.
	sample = 3000
	// tolerance is how far a share may be from the others.
	tolerance = 0.15
)

// closedLoop has clients who read an object, and again as soon as they have it.
type closedLoop struct {
	path    string
	count   atomic.Int64
	failed  atomic.Pointer[error]
	stopped context.CancelFunc
	done    sync.WaitGroup
}

func readAllTheTime(t testing.TB, c *client, path string) *closedLoop {
	t.Helper()
	ctx, cancel := context.WithCancel(t.Context())
	l := &closedLoop{path: path, stopped: cancel}
	for range readers {
		l.done.Go(func() {
			for ctx.Err() == nil {
				a, err := c.send(t.Context(), http.MethodGet, path, nil)
				if err == nil {
					err = a.expect(http.StatusOK)
				}
				if err != nil {
					l.failed.CompareAndSwap(nil, &err)
				}
				l.count.Add(1)
			}
		})
	}
	t.Cleanup(l.stop)
	return l
}

func (l *closedLoop) stop() {
	l.stopped()
	l.done.Wait()
}

// reads returns when there were some more reads.
func (l *closedLoop) reads(ctx context.Context, n int) error {
	ctx, cancel := context.WithTimeout(ctx, giveUp)
	defer cancel()
	for end := l.count.Load() + int64(n); l.count.Load() < end; {
		if failed := l.failed.Load(); failed != nil {
			return *failed
		}
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-time.After(time.Millisecond):
		}
	}
	return nil
}

// served returns how many ConfigMaps each replica says that it has served to readers.
func served(ctx context.Context, replicas []string) ([]float64, error) {
	counts := make([]float64, len(replicas))
	for i, replica := range replicas {
		var err error
		counts[i], err = fleet.metric(ctx, replica, "apiserver_request_total", `resource="configmaps"`, `verb="GET"`)
		if err != nil {
			return nil, err
		}
	}
	return counts, nil
}

// shares returns which share of some reads each replica serves from now on.
func (l *closedLoop) shares(ctx context.Context, replicas []string) ([]float64, error) {
	before, err := served(ctx, replicas)
	if err != nil {
		return nil, err
	}
	if err := l.reads(ctx, sample); err != nil {
		return nil, err
	}
	after, err := served(ctx, replicas)
	if err != nil {
		return nil, err
	}
	return divide(before, after), nil
}

// divide returns the share of each replica in what was counted since.
func divide(before, after []float64) []float64 {
	sum, shares := 0.0, make([]float64, len(after))
	for i := range after {
		shares[i] = after[i] - before[i]
		sum += shares[i]
	}
	for i := range shares {
		shares[i] /= sum
	}
	return shares
}

// fair returns an error where a share is far from that of the others.
func fair(shares []float64) error {
	for _, share := range shares {
		if math.Abs(share*float64(len(shares))-1) > tolerance {
			return fmt.Errorf("shares are %.3f", shares)
		}
	}
	return nil
}

func TestReplicasOfCoreShareTheRequests(t *testing.T) {
	fleet.need(t, "core-0", "core-1", "core-2", "extensions-0", "extensions-1")
	replicas := []string{"core-0", "core-1", "core-2"}
	c, path := newClient(t, "aggregator-0", 4), configMaps.path(createNamespace(t), "a")
	c.need(t, http.MethodPost, path[:len(path)-len("/a")], configMaps.object("a", "0", ""))

	before, err := served(t.Context(), replicas)
	must(t, before, err)
	began, load := time.Now(), readAllTheTime(t, c, path)
	if err := load.reads(t.Context(), 2*sample); err != nil {
		t.Fatal(err)
	}
	load.stop()
	took := time.Since(began)
	after, err := served(t.Context(), replicas)
	shares := divide(before, must(t, after, err))
	t.Logf("%d reads, %.0f/s: shares %.3f", load.count.Load(), float64(load.count.Load())/took.Seconds(), shares)
	if err := fair(shares); err != nil {
		t.Error(err)
	}
	if sum := after[0] + after[1] + after[2] - before[0] - before[1] - before[2]; sum != float64(load.count.Load()) {
		t.Errorf("there were %d reads, and replicas have served %.0f", load.count.Load(), sum)
	}
}

func TestAReplicaThatIsAddedTakesItsShare(t *testing.T) {
	fleet.need(t, "core-0", "core-1", "extensions-0", "extensions-1")
	replicas := []string{"core-0", "core-1", "core-2"}
	c, path := newClient(t, "aggregator-0", 4), configMaps.path(createNamespace(t), "a")
	c.need(t, http.MethodPost, path[:len(path)-len("/a")], configMaps.object("a", "0", ""))

	load := readAllTheTime(t, c, path)
	fleet.start(t, "core-2")
	if err := fleet.Replica("core-2").WaitReady(t.Context()); err != nil {
		t.Fatal(err)
	}
	ready := time.Now()
	framework.Eventually(t, "the new replica has its share", func(ctx context.Context) error {
		began := time.Now()
		shares, err := load.shares(ctx, replicas)
		if err == nil {
			t.Logf("in %s reads from %s after it was ready: shares %.3f", fmt.Sprint(sample), milliseconds(began.Sub(ready)), shares)
			err = fair(shares)
		}
		return err
	})
	load.stop()
	if failed := load.failed.Load(); failed != nil {
		t.Error(*failed)
	}
}
