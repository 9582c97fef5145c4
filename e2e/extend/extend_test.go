// Copyright The Tripod Authors.
// SPDX-License-Identifier: Apache-2.0

package extend

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
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
		// With these requests also partitions fit on a node of two processors.
		small := release.Values{"requests": release.Values{"cpu": "20m"}}
		values["extensions"] = release.Values{"resources": small}
		values["etcd"].(release.Values)["resources"] = small
		err = tripod.Up(ctx, values)
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
		if strings.Contains(block.Content, "make image\n") {
			require.NoError(t, progress.Step("load the image of the service", func() error { return loadImage(t.Context(), reader) }))
		}
	}
	reader.Follow(blocks)
}

// loadImage loads the image of the service into the cluster, as Docker builds it where there is Docker.
func loadImage(ctx context.Context, reader *tutorial.Reader) error {
	archive := filepath.Join(env.Dir, "books.tar")
	if _, err := exec.LookPath("docker"); err == nil {
		build := exec.CommandContext(ctx, "sh", "-ec", "make image && docker save --output "+archive+" books:v1")
		build.Dir, build.Env = reader.Dir, append(slices.Clone(reader.Env), "HOME="+os.Getenv("HOME")) // there Docker finds its daemon
		if out, err := build.CombinedOutput(); err != nil {
			return fmt.Errorf("make image: %w\n%s", err, out)
		}
	} else if err := imagearchive.Write(archive, "books:v1", filepath.Join(reader.Dir, "bin", "books")); err != nil {
		return err
	}
	_, err := env.Cluster.Load(archive)
	return err
}
