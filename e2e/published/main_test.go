// Copyright The Tripod Authors.
// SPDX-License-Identifier: Apache-2.0

package published

import (
	"context"
	"testing"

	"github.com/tripod-k8s/tripod/e2e/environment"
	"github.com/tripod-k8s/tripod/e2e/release"
)

var (
	env    *environment.Environment
	tripod *release.Release
	// registry is where the release is, with the path of its images.
	registry string
)

func TestMain(m *testing.M) {
	environment.Main(m, "-registry", setup, func(e *environment.Environment) error { return e.Collect(tripod) },
		environment.Pulled())
}

// setup starts the registry. helm installs from there, and not from this checkout.
func setup(ctx context.Context, e *environment.Environment) (err error) {
	env = e
	tripod = e.Release("tripod", "tripod-system")
	registry, err = startRegistry(ctx)
	return err
}
