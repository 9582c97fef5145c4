// Copyright The Tripod Authors.
// SPDX-License-Identifier: Apache-2.0

package linearizability

import (
	"context"
	"fmt"
	"math/rand/v2"
	"os"
	"strconv"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/tripod-k8s/tripod/test/framework"
)

// watchGrace is how long a replica that stops takes to end its watches. By default it takes longer; so there are more stops.
const watchGrace = "3s"

// services have two replicas each.
var services = []string{"core", "extensions", "aggregator"}

// resources are so many that each replica of extensions may have some.
var resources = []resource{{"ConfigMap", "configmaps", "v1", "/api/v1"}, custom("Ant"), custom("Bee")}

// cluster is what the rounds of a test share.
type cluster struct {
	*framework.Fleet
	replicas map[string][]*framework.Replica
	// aggregators are the ways to it.
	aggregators []*framework.Cluster
	// artifacts is a directory whose files are kept after a failure, in kept.
	artifacts, kept string
}

func TestClientsSeeOneOrder(t *testing.T) {
	least, seed := environment(t)
	c := startCluster(t)
	began := time.Now()
	for n := 1; n == 1 || time.Since(began) < least && !t.Failed(); n++ {
		t.Run(fmt.Sprintf("round %d", n), func(t *testing.T) {
			t.Logf("the seed is %d", seed)
			newRound(t, c, rand.New(rand.NewPCG(seed, 1))).run(t)
		})
		seed++
	}
}

// environment returns for how long rounds go on, and the seed of the first.
func environment(t testing.TB) (least time.Duration, seed uint64) {
	t.Helper()
	var err error
	if value, ok := os.LookupEnv("LINEARIZABILITY"); ok {
		if least, err = time.ParseDuration(value); err != nil {
			t.Fatalf("LINEARIZABILITY should be a duration, such as 15m: %v", err)
		}
	}
	seed = uint64(rand.Uint32())
	if value, ok := os.LookupEnv("LINEARIZABILITY_SEED"); ok {
		if seed, err = strconv.ParseUint(value, 10, 64); err != nil {
			t.Fatalf("LINEARIZABILITY_SEED should be a number: %v", err)
		}
	}
	return least, seed
}

func startCluster(t testing.TB) *cluster {
	t.Helper()
	env := framework.ForTest(t)
	options := framework.FleetOptions{}
	for _, service := range services {
		for i := range 2 {
			options.Replicas = append(options.Replicas, framework.ReplicaOptions{
				Name: fmt.Sprintf("%s-%d", service, i), Args: []string{"--shutdown-watch-termination-grace-period=" + watchGrace},
			})
		}
	}
	fleet, err := env.StartFleet(t.Context(), options)
	require.NoError(t, err)
	c := &cluster{Fleet: fleet, replicas: map[string][]*framework.Replica{}}
	if c.artifacts, c.kept, err = env.NewKept("histories"); err != nil {
		t.Fatal(err)
	}
	for i, replica := range options.Replicas {
		service := services[i/2]
		c.replicas[service] = append(c.replicas[service], fleet.Replica(replica.Name))
		if service == "aggregator" {
			c.aggregators = append(c.aggregators, fleet.Through(replica.Name))
		}
	}
	for _, r := range resources[1:] {
		require.NoError(t, fleet.Create(t.Context(), r.definition()))
	}
	return c
}

// waitReady returns when all replicas are ready.
func (c *cluster) waitReady(ctx context.Context) error {
	for _, replicas := range c.replicas {
		for _, r := range replicas {
			if err := r.WaitReady(ctx); err != nil {
				return err
			}
		}
	}
	return nil
}
