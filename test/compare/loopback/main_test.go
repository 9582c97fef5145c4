// Copyright The Tripod Authors.
// SPDX-License-Identifier: Apache-2.0

package loopback

import (
	"context"
	"flag"
	"os"
	"strings"
	"testing"

	"golang.org/x/sync/errgroup"

	"github.com/tripod-k8s/tripod/test/framework"
)

var (
	environment *framework.Environment
	// stock and tested have the same admission plugins. tested is Tripod, unless TEST_AGAINST says otherwise.
	stock, tested *framework.Cluster
)

const plugins = "--enable-admission-plugins=NodeRestriction,OwnerReferencesPermissionEnforcement"

func TestMain(m *testing.M) {
	// Most of the time tests wait for servers, not for a processor. The command line may say otherwise.
	if err := flag.Set("test.parallel", "8"); err != nil {
		panic(err)
	}
	framework.Main(m, func(ctx context.Context, env *framework.Environment) error {
		environment = env
		starting := errgroup.Group{}
		starting.Go(func() (err error) { stock, err = startStock(ctx); return err })
		starting.Go(func() (err error) {
			if os.Getenv("TEST_AGAINST") == "stock" {
				tested, err = startStock(ctx)
				return err
			}
			tripod, err := env.StartTripod(ctx, framework.TripodOptions{Args: []string{"--core-arg=" + plugins}})
			if err == nil {
				tested = tripod.Cluster
			}
			return err
		})
		return starting.Wait()
	})
}

func startStock(ctx context.Context) (*framework.Cluster, error) {
	server, err := environment.StartStock(ctx, framework.StockOptions{Args: []string{plugins}})
	if err != nil {
		return nil, err
	}
	return server.Cluster, nil
}

// compare does the same to both clusters and fails the test where what was seen is not the same.
func compare(t *testing.T, observe func(t *testing.T, cluster *framework.Cluster) []string) {
	t.Helper()
	var seen [2][]string
	t.Run("on both", func(t *testing.T) {
		for i, cluster := range []*framework.Cluster{stock, tested} {
			name := []string{"stock", "tested"}[i]
			t.Run(name, func(t *testing.T) {
				t.Parallel()
				seen[i] = observe(t, cluster)
			})
		}
	})
	if want, got := strings.Join(seen[0], "\n"), strings.Join(seen[1], "\n"); got != want {
		t.Errorf("stock:\n%s\n\nTripod:\n%s", want, got)
	}
}
