// Copyright The Tripod Authors.
// SPDX-License-Identifier: Apache-2.0

package upgrade

import (
	"context"
	"errors"
	"os"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"k8s.io/client-go/discovery"

	"github.com/tripod-k8s/tripod/e2e/environment"
	"github.com/tripod-k8s/tripod/e2e/progress"
	"github.com/tripod-k8s/tripod/e2e/release"
	"github.com/tripod-k8s/tripod/test/framework/traffic"
)

var (
	// emulated is the older version of Kubernetes, as in 1.36.
	emulated = os.Getenv("E2E_OLDER_KUBE")
	tripod   *release.Release
	// older and newer are the tags of the images.
	older, newer string
	customs      = release.Customs(10)
)

func TestMain(m *testing.M) {
	environment.Main(m, "-upgrade", install, func(e *environment.Environment) error { return e.Collect(tripod) })
}

// install installs the older version, which emulates itself, as before an upgrade.
func install(ctx context.Context, e *environment.Environment) (err error) {
	if emulated == "" {
		return errors.New("E2E_OLDER_KUBE names no older version of Kubernetes: make e2e-upgrade does")
	}
	newer = e.Tag()
	if older, err = e.LoadOlder(emulated); err != nil {
		return err
	}
	tripod = e.Release("tripod", "tripod-system")
	values, err := e.Values(ctx, environment.NodePort)
	if err != nil {
		return err
	}
	values["image"], values["emulatedVersion"] = release.Values{"tag": older}, emulated
	// kube-controller-manager follows after Tripod: that of the newer version does not suit the older one.
	values["controllerManager"] = release.Values{"enabled": false}
	for _, service := range release.Services {
		// With these requests all pods fit on a node of two processors, even while a Deployment rolls.
		values[service] = release.Values{"replicas": 2, "resources": release.Values{"requests": release.Values{"cpu": "20m"}}}
	}
	if err = e.Volume(ctx, "tripod-etcd"); err == nil {
		err = tripod.Up(ctx, values)
	}
	if err == nil {
		err = tripod.Define(ctx, customs)
	}
	return err
}

func TestHelmGoesToTheNewerVersionAndBack(t *testing.T) {
	require.Equal(t, emulated, served(t))
	clients := traffic.Start(t, traffic.Options{Customs: customs, Rate: 60, Workers: 40, Watchers: 60}, tripod.Admin())
	for _, tag := range []string{newer, older, newer} {
		upgrade(t, "the images "+tag, release.Values{"image": release.Values{"tag": tag}})
		clients.Progress(t, 300)
		assert.Equal(t, emulated, served(t), "fields and versions of the API")
	}
	upgrade(t, "no emulated version", release.Values{"emulatedVersion": ""})
	clients.Progress(t, 300)
	assert.NotEqual(t, emulated, served(t), "the upgrade is finalized")
	clients.Finish(t)
	clients.FailsNever(t)
	clients.WatchesAreWell(t, false)
	clients.SawAll(t)
}

// upgrade returns when the old pods are gone.
func upgrade(t *testing.T, what string, values release.Values) {
	t.Helper()
	require.NoError(t, progress.Step("helm upgrades to "+what, func() error { return tripod.Upgrade(t.Context(), values) }))
	for _, service := range release.Services {
		require.NoError(t, tripod.Settled(t.Context(), service))
	}
}

// served returns the minor version of Kubernetes whose API clients get.
func served(t *testing.T) string {
	t.Helper()
	client, err := discovery.NewDiscoveryClientForConfig(tripod.Admin())
	require.NoError(t, err)
	version, err := client.ServerVersion()
	require.NoError(t, err)
	return version.EmulationMajor + "." + version.EmulationMinor
}
