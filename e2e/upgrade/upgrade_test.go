// Copyright The Tripod Authors.
// SPDX-License-Identifier: Apache-2.0

package upgrade

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"k8s.io/client-go/discovery"

	"github.com/tripod-k8s/tripod/e2e/environment"
	"github.com/tripod-k8s/tripod/e2e/imagearchive"
	"github.com/tripod-k8s/tripod/e2e/progress"
	"github.com/tripod-k8s/tripod/e2e/release"
	"github.com/tripod-k8s/tripod/test/framework"
	"github.com/tripod-k8s/tripod/test/framework/traffic"
	"github.com/tripod-k8s/tripod/test/framework/usage"
)

// wardle is an API service that was built with the SDK.
const wardle = "wardle"

var (
	// emulated is the older version of Kubernetes, as in 1.36.
	emulated = os.Getenv("E2E_OLDER_KUBE")
	// copied is the folder of a copy of this repository in which the older version was built.
	copied = os.Getenv("E2E_OLDER_COPY")
	env    *environment.Environment
	tripod *release.Release
	// older and newer are the tags of the images.
	older, newer string
	customs      = release.Customs(10)
)

func TestMain(m *testing.M) {
	environment.Main(m, "-upgrade", install, func(e *environment.Environment) error { return e.Collect(tripod) })
}

// install installs the older version.
func install(ctx context.Context, e *environment.Environment) (err error) {
	if emulated == "" || copied == "" {
		return errors.New("E2E_OLDER_KUBE and E2E_OLDER_COPY name no older version: make e2e-upgrade does")
	}
	env, newer = e, e.Tag()
	if older, err = e.LoadOlder(copied); err != nil {
		return err
	}
	if older == newer {
		return fmt.Errorf("both versions have the tag %s", older)
	}
	if err = loadWardle(); err != nil {
		return err
	}
	tripod = e.Release("tripod", "tripod-system")
	values, err := e.Values(ctx, environment.NodePort)
	if err != nil {
		return err
	}
	values["image"] = release.Values{"tag": older}
	// kube-controller-manager follows after Tripod: that of the newer version does not suit the older one.
	values["controllerManager"] = release.Values{"enabled": false}
	// With these requests all pods fit on a node of two processors, even while a Deployment rolls.
	little := release.Values{"requests": release.Values{"cpu": "20m"}}
	for _, service := range release.Services {
		values[service] = release.Values{"replicas": 2, "resources": little}
	}
	values["services"] = release.Values{wardle: release.Values{
		"image":  release.Values{"repository": "docker.io/tripod-e2e/" + wardle, "tag": older},
		"groups": []string{"wardle.example.com"}, "replicas": 2, "resources": little,
	}}
	if err = e.Volume(ctx, "tripod-etcd"); err == nil {
		err = tripod.Up(ctx, values)
	}
	if err == nil {
		err = tripod.Define(ctx, customs)
	}
	return err
}

// loadWardle loads images of both versions.
func loadWardle() error {
	root, err := framework.RepositoryRoot()
	if err != nil {
		return err
	}
	for tag, folder := range map[string]string{newer: "bin", older: filepath.Join(copied, "bin")} {
		archive := filepath.Join(env.Dir, wardle+"-"+tag+".tar")
		if err := imagearchive.Write(archive, "docker.io/tripod-e2e/"+wardle+":"+tag, filepath.Join(root, folder, wardle)); err != nil {
			return err
		}
		if _, err := env.Cluster.Load(archive); err != nil {
			return err
		}
	}
	return nil
}

// orders are those in which services are replaced, in turns: to the newer version, back, and there again. In some step, each service is newer
// than each other one, and older.
var orders = [][]string{
	{release.Core, release.Extensions, wardle, release.Aggregator},
	{release.Core, release.Extensions, wardle, release.Aggregator},
	{release.Aggregator, wardle, release.Extensions, release.Core},
}

func TestHelmGoesToTheNewerVersionAndBack(t *testing.T) {
	require.Equal(t, emulated, served(t))
	others := usage.Start(t, usage.Options{Config: tripod.Admin(), Host: gateway(t)})
	clients := traffic.Start(t, traffic.Options{Customs: customs, Rate: 60, Workers: 40, Watchers: 60, Long: true}, tripod.Admin())
	upgrade(t, "the emulated version "+emulated, release.Values{"emulatedVersion": emulated})
	assert.Equal(t, emulated, served(t), "nothing changes for clients")
	usage.ExpectHealthy(t, tripod.Admin())
	goBack(t, clients)
	for i, order := range orders {
		tag := []string{newer, older}[i%2]
		for _, service := range order {
			upgrade(t, service+" with the image "+tag, imageOf(service, tag))
			clients.Progress(t, 200)
			assert.Equal(t, emulated, served(t), "fields and versions of the API")
			usage.ExpectHealthy(t, tripod.Admin())
		}
	}
	upgrade(t, "no emulated version", release.Values{
		"image": release.Values{"tag": newer, "tags": nil}, "emulatedVersion": "",
	})
	clients.Progress(t, 300)
	assert.NotEqual(t, emulated, served(t), "the upgrade is finalized")
	others.Stop()
	clients.Finish(t)
	clients.FailsNever(t)
	clients.WatchesAreWell(t, false)
	clients.SawAll(t)
	for _, failure := range others.Failures() {
		t.Error(failure)
	}
	t.Log(others)
}

// goBack replaces core, and goes back by `helm rollback`.
func goBack(t *testing.T, clients *traffic.Traffic) {
	t.Helper()
	upgrade(t, release.Core+" with the image "+newer, imageOf(release.Core, newer))
	require.NoError(t, progress.Step("helm goes back", func() error {
		_, err := tripod.Helm(t.Context(), "rollback", tripod.Name, "--wait", "--timeout=10m")
		return err
	}))
	require.NoError(t, tripod.Settled(t.Context(), release.Core))
	clients.Progress(t, 200)
	core, err := tripod.Deployment(t.Context(), release.Core)
	require.NoError(t, err)
	assert.Contains(t, core.Spec.Template.Spec.Containers[0].Image, older)
	usage.ExpectHealthy(t, tripod.Admin())
}

// imageOf returns the values that give a service alone the image with a tag.
func imageOf(service, tag string) release.Values {
	if service == wardle {
		return release.Values{"services": release.Values{wardle: release.Values{"image": release.Values{"tag": tag}}}}
	}
	return release.Values{"image": release.Values{"tags": release.Values{"tripod-" + service: tag}}}
}

// upgrade returns when the old pods are gone.
func upgrade(t *testing.T, what string, values release.Values) {
	t.Helper()
	require.NoError(t, progress.Step("helm upgrades to "+what, func() error { return tripod.Upgrade(t.Context(), values) }))
	for _, service := range append([]string{wardle}, release.Services...) {
		require.NoError(t, tripod.Settled(t.Context(), service))
	}
}

// gateway returns the address at which pods reach this process.
func gateway(t *testing.T) string {
	t.Helper()
	routes, err := env.Cluster.Exec(t.Context(), nil, "ip", "-4", "route", "show", "default")
	require.NoError(t, err)
	found := regexp.MustCompile(`default via (\S+)`).FindStringSubmatch(routes)
	require.NotNil(t, found, fmt.Sprintf("the node has no default route: %s", routes))
	return found[1]
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
