// Copyright The Tripod Authors.
// SPDX-License-Identifier: Apache-2.0

package identity

import (
	"context"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/tripod-k8s/tripod/test/framework"
)

// stopTime is far more than a core needs that does not wait for etcd, and less than it takes to wait.
const stopTime = 25 * time.Second

func TestACoreWithoutEtcdStops(t *testing.T) {
	t.Parallel()
	env := framework.ForTest(t)
	etcd, err := env.StartEtcd(t.Context(), env.Dir)
	require.NoError(t, err)
	way := env.NewGateway(t, etcd)
	fleet, err := env.StartFleet(t.Context(), framework.FleetOptions{EtcdURL: etcd, Replicas: []framework.ReplicaOptions{
		{Name: "core-0", EtcdURL: way.URL(), Args: []string{"--endpoint-reconciler-type=lease"}}, {Name: "extensions-0"}, {Name: "aggregator-0"},
	}})
	require.NoError(t, err)
	way.Frozen.Lock()
	defer way.Frozen.Unlock()
	core := fleet.Replica("core-0").Process()
	// It is asked for something that only etcd knows while it stops.
	ctx, cancel := context.WithTimeout(t.Context(), stopTime)
	defer cancel()
	go get(ctx, fleet.As("core-0", framework.Master), "/api/v1/namespaces/default/configmaps?limit=1") //nolint:errcheck // there is no answer
	began := time.Now()
	require.NoError(t, core.Signal(syscall.SIGTERM))
	select {
	case <-core.Done():
		t.Logf("it stopped after %s", time.Since(began).Round(100*time.Millisecond))
	case <-ctx.Done():
		t.Errorf("it has not stopped after %s", stopTime)
	}
}
