// Copyright The Tripod Authors.
// SPDX-License-Identifier: Apache-2.0

package aggregated

import (
	"context"
	"fmt"
	"testing"
	"time"

	"github.com/tripod-k8s/tripod/test/framework"
)

var (
	environment *framework.Environment
	fleet       *framework.Fleet
)

// aggregators are used in turn.
var aggregators = []string{"aggregator-0", "aggregator-1"}

func TestMain(m *testing.M) {
	framework.Main(m, func(ctx context.Context, env *framework.Environment) (err error) {
		environment = env
		options := framework.FleetOptions{Replicas: []framework.ReplicaOptions{{Name: "core-0"}, {Name: "extensions-0"}}}
		for _, name := range aggregators {
			options.Replicas = append(options.Replicas, framework.ReplicaOptions{Name: name, Args: []string{"--enable-aggregator-routing"}})
		}
		fleet, err = env.StartFleet(ctx, options)
		return err
	})
}

// milliseconds is how tests print a time.
func milliseconds(d time.Duration) string {
	return fmt.Sprintf("%.0f ms", float64(d.Microseconds())/1000)
}
