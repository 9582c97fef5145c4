// Copyright The Tripod Authors.
// SPDX-License-Identifier: Apache-2.0

package dataplane

import (
	"context"
	"fmt"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/tripod-k8s/tripod/test/framework"
)

// death is the end of a replica.
type death struct {
	replica string
	// killed is when the signal was sent.
	killed time.Time
	// noticed is when aggregators were seen to use it no more.
	noticed map[string]time.Duration
}

func TestClientsSeeNothingOfAReplicaThatIsKilled(t *testing.T) {
	fleet.need(t, "core-0", "core-1", "extensions-0", "extensions-1")
	tr := startTraffic(t)
	var deaths []death
	for range either(1, 5) {
		for _, replica := range []string{"core-0", "extensions-0", "core-1", "extensions-1"} {
			deaths = append(deaths, killAndRestart(t, replica))
		}
	}
	tr.finish(t)
	for _, d := range deaths {
		t.Logf("%s was killed: noticed after %v; the slowest request of that second took %s", d.replica, d.noticed, milliseconds(tr.slowest(d.killed)))
	}
	tr.failsOnlyWrites(t, deaths)
	tr.watchesAreWell(t, true)
	tr.sawAll(t)
}

// killAndRestart kills a replica, and starts it again when the aggregators have noticed.
func killAndRestart(t testing.TB, replica string) death {
	t.Helper()
	service, _, _ := strings.Cut(replica, "-")
	d := death{replica: replica, killed: time.Now(), noticed: map[string]time.Duration{}}
	fleet.kill(t, replica)
	for _, aggregator := range aggregators {
		if err := waitFor(t.Context(), func(ctx context.Context) error { return fleet.serving(ctx, aggregator, service) }); err != nil {
			t.Fatal(err)
		}
		d.noticed[aggregator] = time.Since(d.killed).Round(time.Millisecond / 10)
	}
	fleet.start(t, replica)
	if err := fleet.Replica(replica).WaitReady(t.Context()); err != nil {
		t.Fatal(err)
	}
	framework.Eventually(t, "the aggregators use "+replica+" again", func(ctx context.Context) error {
		for _, aggregator := range aggregators {
			if err := fleet.serving(ctx, aggregator, service); err != nil {
				return err
			}
		}
		return nil
	})
	return d
}

// waitFor is for conditions whose time is measured.
func waitFor(ctx context.Context, condition func(context.Context) error) error {
	ctx, cancel := context.WithTimeout(ctx, giveUp)
	defer cancel()
	for {
		err := condition(ctx)
		if err == nil {
			return nil
		}
		select {
		case <-ctx.Done():
			return fmt.Errorf("%w: %w", ctx.Err(), err)
		case <-time.After(time.Millisecond):
		}
	}
}

// failsOnlyWrites expects that nothing failed but writes that were on their way to a replica that died, and that these
// clients were told so.
func (tr *traffic) failsOnlyWrites(t testing.TB, deaths []death) {
	t.Helper()
	counts := make([]map[int]int, len(deaths))
	for _, f := range tr.failures() {
		i := deathDuring(f, deaths)
		if f.reads() || i < 0 || f.code != http.StatusBadGateway {
			t.Error(f)
			continue
		}
		if counts[i] == nil {
			counts[i] = map[int]int{}
		}
		if counts[i][f.worker]++; counts[i][f.worker] > 1 {
			t.Errorf("a second time: %v", f)
		}
	}
	for i, d := range deaths {
		t.Logf("%s was killed: %d writes failed", d.replica, len(counts[i]))
	}
}

// deathDuring returns the replica that was killed while a request was under way, or -1.
func deathDuring(f failure, deaths []death) int {
	for i, d := range deaths {
		noticed := d.killed
		for _, after := range d.noticed {
			noticed = maxTime(noticed, d.killed.Add(after))
		}
		if f.began.Before(noticed) && f.ended.After(d.killed) {
			return i
		}
	}
	return -1
}

func maxTime(a, b time.Time) time.Time {
	if a.After(b) {
		return a
	}
	return b
}
