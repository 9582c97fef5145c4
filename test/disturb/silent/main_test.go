// Copyright The Tripod Authors.
// SPDX-License-Identifier: Apache-2.0

package silent

import (
	"context"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/tripod-k8s/tripod/test/framework"
)

// fleet is shared by the tests. The second replica of core is started by the test that needs a young watch cache.
var fleet *framework.Fleet

// boats are custom resources of the fleet.
var boats = framework.CRD{Kind: "Boat"}

func TestMain(m *testing.M) {
	framework.Main(m, func(ctx context.Context, env *framework.Environment) (err error) {
		fleet, err = env.StartFleet(ctx, framework.FleetOptions{Replicas: []framework.ReplicaOptions{
			{Name: "core-0"}, {Name: "extensions-0", Cores: []string{"core-0"}}, {Name: "aggregator-0", Cores: []string{"core-0"}},
			{Name: "core-1", Later: true},
		}})
		if err != nil {
			return err
		}
		return fleet.Create(ctx, boats.String())
	})
}

// giveUp ends a wait that would never end. It is a fraction of what clients waited that had to wait one after the other.
const giveUp = 20 * time.Second

// pause stops a replica without a word, until the test ends or resume is called.
func pause(t *testing.T, replica string) (resume func()) {
	t.Helper()
	require.NoError(t, fleet.Replica(replica).Pause())
	resume = func() {
		assert.NoError(t, fleet.Replica(replica).Resume())
	}
	t.Cleanup(resume)
	return resume
}
