// Copyright The Tripod Authors.
// SPDX-License-Identifier: Apache-2.0

package resize

import (
	"context"
	"fmt"
	"testing"

	"github.com/tripod-k8s/tripod/e2e/environment"
	"github.com/tripod-k8s/tripod/e2e/release"
)

// members is the larger number of members of etcd.
const members = 3

// tripod is the release.
var tripod *release.Release

// customs are custom resources.
var customs = release.Customs(4)

func TestMain(m *testing.M) {
	environment.Main(m, "-resize", install, func(e *environment.Environment) error { return e.Collect(tripod) })
}

// install installs the release with two replicas of each service, so that requests go on while they roll.
func install(ctx context.Context, e *environment.Environment) error {
	tripod = e.Release("tripod", "tripod-system")
	values, err := e.Values(ctx, environment.NodePort)
	if err != nil {
		return err
	}
	little := release.Values{"requests": release.Values{"cpu": "10m"}}
	for _, service := range release.Services {
		values[service] = release.Values{"replicas": 2, "resources": little}
	}
	values["etcd"].(release.Values)["resources"] = little
	for i := range members {
		if err := e.Volume(ctx, fmt.Sprintf("tripod-etcd-%d", i)); err != nil {
			return err
		}
	}
	if err := tripod.Up(ctx, values); err != nil {
		return err
	}
	return tripod.Define(ctx, customs)
}
