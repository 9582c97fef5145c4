// Copyright The Tripod Authors.
// SPDX-License-Identifier: Apache-2.0

package data

import (
	"context"
	"testing"

	"github.com/tripod-k8s/tripod/e2e/environment"
	"github.com/tripod-k8s/tripod/e2e/release"
)

// env is the cluster, and tripod the release in it.
var (
	env    *environment.Environment
	tripod *release.Release
)

func TestMain(m *testing.M) {
	environment.Main(m, "-data", func(_ context.Context, e *environment.Environment) error {
		env, tripod = e, e.Release("tripod", "tripod-system")
		return nil
	}, func(e *environment.Environment) error { return e.Collect(tripod) })
}
