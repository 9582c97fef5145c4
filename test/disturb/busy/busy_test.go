// Copyright The Tripod Authors.
// SPDX-License-Identifier: Apache-2.0

package busy

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/tripod-k8s/tripod/test/framework"
)

// streams lets a connection have all watches of a herd.
const streams = "--http2-max-streams-per-connection=1000"

// TestAHerdIsRefusedByNobody has each service use one processor. Meanwhile core, and then the aggregator, gets no processor at all for longer than
// any other service may be silent if it can be spared. Then etcd does: core cannot know whether it misses changes.
func TestAHerdIsRefusedByNobody(t *testing.T) {
	env := framework.ForTest(t)
	url, etcd, err := env.StartEtcdProcess(t.Context(), t.TempDir())
	require.NoError(t, err)
	fleet, err := env.StartFleet(t.Context(), framework.FleetOptions{
		EtcdURL: url, Env: []string{"GOMAXPROCS=1"}, Replicas: []framework.ReplicaOptions{
			{Name: "core-0", Args: []string{streams}}, {Name: "extensions-0"}, {Name: "aggregator-0", Args: []string{streams}},
		},
	})
	require.NoError(t, err)
	addAccount(t, fleet.Admin())
	reconnected := func() float64 {
		follows, err := fleet.Metric(t.Context(), "aggregator-0", "tripod_identity_client_follows_total")
		require.NoError(t, err)
		ejections, err := fleet.Metric(t.Context(), "aggregator-0", "tripod_backend_ejections_total")
		require.NoError(t, err)
		return follows + ejections
	}
	before := reconnected()
	h := herd{watches: 500, connections: 4, events: 40, pause: 50 * time.Millisecond, tokens: 10, opened: func() {
		stall(t, fleet.Replica("core-0").Process(), 5*time.Second)
		stall(t, fleet.Replica("aggregator-0").Process(), 5*time.Second)
		stall(t, etcd, 6*time.Second) // two checks of etcd fail, 2 s each
	}}
	c := h.run(t, fleet.Admin())
	t.Log(c)
	c.expect(t, h)
	require.InDelta(t, before, reconnected(), 0, "a service that was busy was taken for dead")
}
