// Copyright The Tripod Authors.
// SPDX-License-Identifier: Apache-2.0

package loopback

import (
	"context"
	"flag"
	"slices"
	"strings"
	"testing"

	"github.com/tripod-k8s/tripod/test/framework"
	"github.com/tripod-k8s/tripod/test/framework/both"
)

var (
	environment *framework.Environment
	// clusters are stock and Tripod, with the same admission plugins.
	clusters [2]*framework.Cluster
)

const plugins = "--enable-admission-plugins=NodeRestriction,OwnerReferencesPermissionEnforcement"

func TestMain(m *testing.M) {
	// Most of the time tests wait for servers, not for a processor. The command line may say otherwise.
	if err := flag.Set("test.parallel", "8"); err != nil {
		panic(err)
	}
	framework.Main(m, func(ctx context.Context, env *framework.Environment) (err error) {
		environment = env
		clusters, err = both.StartClusters(ctx, env, []string{plugins}, []string{"--core-arg=" + plugins})
		return err
	})
}

// compare does the same to both clusters and fails the test where what was seen is not the same.
func compare(t *testing.T, observe func(t *testing.T, cluster *framework.Cluster) []string) {
	t.Helper()
	var seen [2][]string
	t.Run("on both", func(t *testing.T) {
		both.Run(t, clusters, func(t *testing.T, cluster *framework.Cluster) {
			seen[slices.Index(clusters[:], cluster)] = observe(t, cluster)
		})
	})
	if want, got := strings.Join(seen[0], "\n"), strings.Join(seen[1], "\n"); got != want {
		t.Errorf("stock:\n%s\n\nTripod:\n%s", want, got)
	}
}
