// Copyright The Tripod Authors.
// SPDX-License-Identifier: Apache-2.0

package dataplane

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"k8s.io/client-go/rest"

	"github.com/tripod-k8s/tripod/test/framework"
	"github.com/tripod-k8s/tripod/test/framework/traffic"
)

// watchGrace is how long a replica that stops takes to end its watches. By default it takes longer; so there are more rolls.
const watchGrace = "3s"

// aggregators are those of the fleet. Tests do not stop them.
var aggregators = []string{"aggregator-0", "aggregator-1"}

// dataPlane is Tripod with several replicas.
type dataPlane struct {
	*framework.Fleet
	// backends are the names of the replicas of core and extensions that there can be, and running those that are.
	backends []string
	running  map[string]bool
}

func startFleet(ctx context.Context, env *framework.Environment) (*dataPlane, error) {
	d := &dataPlane{
		backends: []string{"core-0", "core-1", "core-2", "extensions-0", "extensions-1"},
		running:  map[string]bool{},
	}
	options := framework.FleetOptions{}
	for _, name := range d.backends {
		replica := framework.ReplicaOptions{
			Name: name, Later: name == "core-2", Args: []string{"--shutdown-watch-termination-grace-period=" + watchGrace},
		}
		options.Replicas = append(options.Replicas, replica)
		d.running[name] = !replica.Later
	}
	for _, name := range aggregators {
		options.Replicas = append(options.Replicas, framework.ReplicaOptions{Name: name})
	}
	var err error
	if d.Fleet, err = env.StartFleet(ctx, options); err != nil {
		return nil, err
	}
	return d, d.Create(ctx, traffic.Definitions(few))
}

// need makes these replicas of the backends run, and no others, and returns when aggregators use them.
func (d *dataPlane) need(t testing.TB, names ...string) {
	t.Helper()
	for _, name := range d.backends {
		switch wanted := slices.Contains(names, name); {
		case wanted && !d.running[name]:
			d.start(t, name)
		case !wanted && d.running[name]:
			d.kill(t, name)
		}
	}
	d.awaitServing(t)
}

// awaitServing returns when the aggregators send requests to all replicas of backends that run, and to no others.
func (d *dataPlane) awaitServing(t testing.TB) {
	t.Helper()
	framework.Eventually(t, "aggregators use the replicas that run", func(ctx context.Context) error {
		for _, aggregator := range aggregators {
			for _, service := range []string{"core", "extensions"} {
				if err := d.serving(ctx, aggregator, service); err != nil {
					return err
				}
			}
		}
		return nil
	})
}

// serving returns nil when an aggregator sends requests to all replicas of a backend that run.
func (d *dataPlane) serving(ctx context.Context, aggregator, service string) error {
	want := 0
	for _, name := range d.backends {
		if d.running[name] && strings.HasPrefix(name, service+"-") {
			want++
		}
	}
	got, err := d.Metric(ctx, aggregator, "tripod_backend_endpoints", "backend="+service, "state=serving")
	if err == nil && int(got) != want {
		err = fmt.Errorf("%s has %v replicas of %s, not %d", aggregator, got, service, want)
	}
	return err
}

func (d *dataPlane) start(t testing.TB, name string) {
	t.Helper()
	require.NoError(t, d.Replica(name).Start())
	d.running[name] = true
}

// kill ends a replica as kill -9 does.
func (d *dataPlane) kill(t testing.TB, name string) {
	t.Helper()
	d.running[name] = false
	require.NoError(t, d.Replica(name).Kill())
}

// restart stops a replica in order, starts it and returns when it is ready.
func (d *dataPlane) restart(t testing.TB, name string) {
	t.Helper()
	d.running[name] = false
	require.NoError(t, d.Replica(name).Stop())
	d.start(t, name)
	d.awaitReady(t, name)
}

func (d *dataPlane) awaitReady(t testing.TB, name string) {
	t.Helper()
	require.NoError(t, d.Replica(name).WaitReady(t.Context()))
}

// addresses are those that clients know.
func (d *dataPlane) addresses() []*framework.Cluster {
	var all []*framework.Cluster
	for _, name := range aggregators {
		all = append(all, d.Through(name))
	}
	return all
}

// configs are what clients need for the addresses.
func (d *dataPlane) configs() []*rest.Config {
	var all []*rest.Config
	for _, address := range d.addresses() {
		all = append(all, address.Admin())
	}
	return all
}
