// Copyright The Tripod Authors.
// SPDX-License-Identifier: Apache-2.0

package dataplane

import (
	"testing"
	"time"

	"github.com/tripod-k8s/tripod/test/framework/traffic"
)

// rollFor is how long replicas are restarted, one after the other. Each is at least once.
const rollFor = time.Minute

func TestARollingRestartLosesNothing(t *testing.T) {
	fleet.need(t, "core-0", "core-1", "extensions-0", "extensions-1")
	order := []string{"core-0", "core-1", "extensions-0", "extensions-1"}
	tr := traffic.Start(t, traffic.Options{Customs: few}, fleet.configs()...)
	for i, end := 0, time.Now().Add(rollFor); i < len(order) || time.Now().Before(end); i++ {
		replica, began := order[i%len(order)], time.Now()
		fleet.restart(t, replica)
		measured(t, replica+"-restarted", time.Since(began))
		fleet.awaitServing(t)
	}
	tr.Finish(t)
	tr.FailsNever(t)
	tr.WatchesAreWell(t, false)
	tr.SawAll(t)
}
