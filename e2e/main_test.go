// Copyright The Tripod Authors.
// SPDX-License-Identifier: Apache-2.0

package e2e

import (
	"context"
	"sync"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/tripod-k8s/tripod/e2e/environment"
	"github.com/tripod-k8s/tripod/e2e/release"
	"github.com/tripod-k8s/tripod/test/framework/traffic"
)

// env is the cluster that the tests share.
var env *environment.Environment

// mainRelease is the release that the tests share. Its namespace is the one that APIServices name.
var mainRelease struct {
	sync.Once
	*release.Release
	err error
}

func TestMain(m *testing.M) {
	environment.Main(m, "", func(_ context.Context, e *environment.Environment) error {
		env = e
		return nil
	}, func(e *environment.Environment) error {
		if mainRelease.Release == nil {
			return e.Collect()
		}
		return e.Collect(mainRelease.Release)
	})
}

// shared returns the release that the tests share. The first call installs it.
func shared(t testing.TB) *release.Release {
	t.Helper()
	mainRelease.Do(func() {
		r := env.Release("tripod", "tripod-system")
		mainRelease.Release = r
		values, err := env.Values(t.Context(), environment.NodePort)
		if err == nil {
			err = env.Volume(t.Context(), "tripod")
		}
		if err == nil {
			err = r.Up(t.Context(), values)
		}
		mainRelease.err = err
	})
	if mainRelease.err != nil {
		t.Fatal(mainRelease.err)
	}
	return mainRelease.Release
}

// customs has enough kinds that each of three replicas of extensions serves some.
var customs = release.Customs(30)

// load starts clients that use ConfigMaps and custom resources.
func load(t testing.TB, r *release.Release) *traffic.Traffic {
	t.Helper()
	require.NoError(t, r.Define(t.Context(), customs))
	return traffic.Start(t, traffic.Options{Customs: customs, Rate: 100, Workers: 60, Watchers: 120}, r.Admin())
}

// unharmed stops the clients and expects that no request failed and no watch missed an event.
func unharmed(t testing.TB, load *traffic.Traffic) {
	t.Helper()
	load.Finish(t)
	load.FailsNever(t)
	load.WatchesAreWell(t, false)
	load.SawAll(t)
}
