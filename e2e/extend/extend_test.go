// Copyright The Tripod Authors.
// SPDX-License-Identifier: Apache-2.0

package extend

import (
	"context"
	"fmt"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/tripod-k8s/tripod/e2e/environment"
	"github.com/tripod-k8s/tripod/e2e/imagearchive"
	"github.com/tripod-k8s/tripod/e2e/progress"
	"github.com/tripod-k8s/tripod/e2e/release"
	"github.com/tripod-k8s/tripod/test/framework"
	"github.com/tripod-k8s/tripod/test/framework/tutorial"
)

// env is the cluster, and tripod the release in it, as the page installs it.
var (
	env    *environment.Environment
	tripod *release.Release
)

func TestMain(m *testing.M) {
	environment.Main(m, "-extend", install, func(e *environment.Environment) error { return e.Collect(tripod) })
}

func install(ctx context.Context, e *environment.Environment) error {
	env, tripod = e, e.Release("tripod", "tripod")
	values, err := e.Values(ctx, environment.NodePort)
	if err == nil {
		err = e.Volume(ctx, "tripod")
	}
	if err == nil {
		err = progress.Step("helm installs the chart", func() error { return tripod.Install(ctx, values) })
	}
	if err == nil {
		_, err = tripod.Connect(ctx)
	}
	if err == nil {
		err = tripod.AwaitReachable(ctx)
	}
	if err == nil {
		_, err = tripod.HostKubectl(ctx, "", "apply", "--server-side", "-f", "testdata/monitoring.yaml")
	}
	return err
}

func TestExtend(t *testing.T) {
	root, err := framework.RepositoryRoot()
	require.NoError(t, err)
	blocks, err := tutorial.Read(filepath.Join(root, "docs", "extend.md"), "Write it", "Watch over it")
	require.NoError(t, err)
	host := env.Cluster.Kubeconfig
	reader := tutorial.NewReader(t, tutorial.Environment(t, map[string]string{
		"kubectl": fmt.Sprintf("KUBECONFIG=%q exec %q kubectl \"$@\"", host, filepath.Join(root, "bin", "tripod")),
		"helm":    fmt.Sprintf("exec %q --kubeconfig %q \"$@\"", filepath.Join(root, "bin", "tools", "helm"), host),
	}))
	reader.NotRun = func(block tutorial.Block) {
		if strings.Contains(block.Content, "kind load docker-image books:v1") {
			require.NoError(t, progress.Step("load the image of the service", func() error { return load(reader.Dir) }))
		}
	}
	reader.Follow(blocks)
}

// load packs the program of the service into an image, and loads it into the cluster.
func load(folder string) error {
	archive := filepath.Join(env.Dir, "books.tar")
	if err := imagearchive.Write(archive, "books:v1", filepath.Join(folder, "bin", "books")); err != nil {
		return err
	}
	_, err := env.Cluster.Load(archive)
	return err
}
