// Copyright The Tripod Authors.
// SPDX-License-Identifier: Apache-2.0

package dataplane

import (
	"context"
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/tripod-k8s/tripod/test/framework"
	"github.com/tripod-k8s/tripod/test/framework/traffic"
)

// fleet is shared by the tests.
var fleet *dataPlane

// few are the custom resources of the fleet: kube-controller-manager takes ten seconds for each to see that it is not served.
var few = traffic.Customs[:2]

func TestMain(m *testing.M) {
	framework.Main(m, func(ctx context.Context, env *framework.Environment) (err error) {
		fleet, err = startFleet(ctx, env)
		return err
	})
}

// giveUp ends a wait that would never end; it says nothing about how fast anything is.
const giveUp = time.Minute

// measured prints how long something took; name has no blanks.
func measured(t testing.TB, name string, took time.Duration) {
	t.Helper()
	t.Attr(name, milliseconds(took))
}

func milliseconds(d time.Duration) string {
	return fmt.Sprintf("%.1f ms", float64(d.Microseconds())/1000)
}

// percentile returns the time that so many of a hundred are below.
func percentile(times []time.Duration, percent int) time.Duration {
	if len(times) == 0 {
		return 0
	}
	slices.Sort(times)
	return times[len(times)*percent/100]
}
