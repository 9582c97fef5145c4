// Copyright The Tripod Authors.
// SPDX-License-Identifier: Apache-2.0

package dataplane

import (
	"context"
	"net/http"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/tripod-k8s/tripod/test/framework/traffic"
)

// death is the end of a replica.
type death struct {
	replica string
	// killed is when the signal was sent, and noticed when all aggregators were seen to use the replica no more.
	killed, noticed time.Time
}

func TestClientsSeeNothingOfAReplicaThatIsKilled(t *testing.T) {
	fleet.need(t, "core-0", "core-1", "extensions-0", "extensions-1")
	tr := traffic.Start(t, traffic.Options{Customs: few}, fleet.configs()...)
	var deaths []death
	for _, replica := range []string{"core-0", "extensions-0", "core-1", "extensions-1"} {
		d := death{replica: replica, killed: time.Now()}
		fleet.kill(t, replica)
		d.noticed = awaitNotice(t, replica)
		deaths = append(deaths, d)
		fleet.start(t, replica)
		fleet.awaitReady(t, replica)
		fleet.awaitServing(t)
	}
	tr.Finish(t)
	for _, d := range deaths {
		measured(t, d.replica+"-noticed", d.noticed.Sub(d.killed))
		slowest := tr.Slowest(d.killed)
		measured(t, d.replica+"-slowest-request", slowest.Took())
		t.Logf("%s was killed: the slowest request was %s %s", d.replica, slowest.Method, slowest.Path)
	}
	failsOnlyWrites(t, tr, deaths)
	tr.WatchesAreWell(t, true)
	tr.SawAll(t)
}

// awaitNotice returns when the aggregators were seen not to use a replica any more.
func awaitNotice(t testing.TB, replica string) time.Time {
	t.Helper()
	service, _, _ := strings.Cut(replica, "-")
	ctx, cancel := context.WithTimeout(t.Context(), giveUp)
	defer cancel()
	for _, aggregator := range aggregators {
		for {
			err := fleet.serving(ctx, aggregator, service)
			if err == nil {
				break
			}
			select {
			case <-ctx.Done():
				t.Fatal(err)
			case <-time.After(5 * time.Millisecond): // the answer itself takes longer
			}
		}
	}
	return time.Now()
}

// failsOnlyWrites expects that nothing failed but writes that were on their way to a replica that died, and that the clients of
// these got an error.
func failsOnlyWrites(t testing.TB, tr *traffic.Traffic, deaths []death) {
	t.Helper()
	counts := make([]map[int]int, len(deaths))
	for _, f := range tr.Failures() {
		i := deathDuring(f, deaths)
		if f.Reads() || i < 0 || f.Code != http.StatusBadGateway {
			t.Error(f)
			continue
		}
		if counts[i] == nil {
			counts[i] = map[int]int{}
		}
		if counts[i][f.Worker]++; counts[i][f.Worker] > 1 {
			t.Errorf("a second time: %v", f)
		}
	}
	for i, d := range deaths {
		t.Logf("%s was killed: %d writes failed", d.replica, len(counts[i]))
	}
}

// deathDuring returns the replica that was killed while a request was under way, or -1.
func deathDuring(f traffic.Failure, deaths []death) int {
	return slices.IndexFunc(deaths, func(d death) bool { return f.Began.Before(d.noticed) && f.Ended.After(d.killed) })
}
