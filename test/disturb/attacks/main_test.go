// Copyright The Tripod Authors.
// SPDX-License-Identifier: Apache-2.0

package attacks

import (
	"context"
	"fmt"
	"os"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/tripod-k8s/tripod/test/framework"
)

const mebi = 1 << 20

// memory is the memory limit of the attacked aggregator, as if it ran in a container.
const memory = 256 * mebi

// isFull selects the full form.
var isFull = os.Getenv("ATTACKS") == "full"

// inFull returns whole in the full form, and short in the short form.
func inFull[T any](whole, short T) T {
	if isFull {
		return whole
	}
	return short
}

var fleet *framework.Fleet

func TestMain(m *testing.M) {
	framework.Main(m, func(ctx context.Context, env *framework.Environment) error {
		etcd, err := env.StartEtcd(ctx, env.Dir)
		if err != nil {
			return err
		}
		fleet, err = env.StartFleet(ctx, framework.FleetOptions{EtcdURL: etcd, Replicas: []framework.ReplicaOptions{
			{Name: "core-0"}, {Name: "extensions-0"},
			{Name: "aggregator-0", Env: []string{fmt.Sprint("GOMEMLIMIT=", memory*95/100)}}, // as the chart does
		}})
		return err
	})
}

// resetPeak makes peak start anew.
func resetPeak(t *testing.T) {
	t.Helper()
	require.NoError(t, os.WriteFile(fmt.Sprintf("/proc/%d/clear_refs", fleet.Replica("aggregator-0").Process().PID()), []byte("5"), 0))
}

// peak returns the largest memory of the aggregator in bytes.
func peak(t *testing.T) int {
	t.Helper()
	peak, err := fleet.Replica("aggregator-0").Process().PeakMemory()
	require.NoError(t, err)
	require.NotZero(t, peak)
	return int(peak)
}

// count returns how often a replica has logged a text.
func count(t *testing.T, replica, text string) int {
	t.Helper()
	logged, err := os.ReadFile(fleet.Replica(replica).Process().Log)
	require.NoError(t, err)
	return strings.Count(string(logged), text)
}

// stalls returns how often the aggregator found a replica frozen. On an idle machine that does not happen. With a load of 20 on 2 processors, core may
// get no processor time for 2 s.
func stalls(t *testing.T) int {
	t.Helper()
	return count(t, "aggregator-0", `state="frozen"`)
}
