// Copyright The Tripod Authors.
// SPDX-License-Identifier: Apache-2.0

package both

import (
	"context"
	"fmt"
	"os"
	"slices"
	"testing"

	"golang.org/x/sync/errgroup"
	"k8s.io/client-go/discovery"
	"k8s.io/client-go/rest"

	"github.com/tripod-k8s/tripod/test/framework"
)

// Emulated is the version of Kubernetes that both sides of StartClusters emulate, as in 1.36, or nothing. A test that starts its sides
// itself passes on EmulationFlags.
var Emulated = os.Getenv("TEST_EMULATED_VERSION")

// EmulationFlags are the flags of a kube-apiserver that emulates Emulated, which is the oldest version that its objects must suit, too.
func EmulationFlags() []string {
	if Emulated == "" {
		return nil
	}
	return []string{"--emulated-version=" + Emulated, "--min-compatibility-version=" + Emulated}
}

// ExpectEmulation expects that an API server reports the version that it shall emulate. Without it, a comparison that starts without the
// flags would pass all the same.
func ExpectEmulation(config *rest.Config) error {
	client, err := discovery.NewDiscoveryClientForConfig(config)
	if err != nil {
		return err
	}
	got, err := client.ServerVersion()
	if err != nil {
		return err
	}
	emulated, oldest := got.EmulationMajor+"."+got.EmulationMinor, got.MinCompatibilityMajor+"."+got.MinCompatibilityMinor
	if Emulated != "" && (emulated != Emulated || oldest != Emulated) {
		return fmt.Errorf("%s emulates %s and is compatible with %s, not with %s", config.Host, emulated, oldest, Emulated)
	}
	return nil
}

// Stock is the path of another kube-apiserver for the stock side of StartClusters, such as that of the version that Tripod emulates.
var Stock = os.Getenv("TEST_STOCK")

// AgainstStock is set if a second stock kube-apiserver takes the place of Tripod.
var AgainstStock = os.Getenv("TEST_AGAINST") == "stock"

// names are the names of the subtests of the two sides.
var names = [2]string{"stock", "tripod"}

// NeedsTripod skips a test of Tripod's own processes if a stock kube-apiserver takes its place.
func NeedsTripod(t testing.TB) {
	t.Helper()
	if AgainstStock {
		t.Skip("this is about the processes of Tripod")
	}
}

// Start starts stock and Tripod at the same time. It calls start once for each.
func Start[S any](ctx context.Context, start func(ctx context.Context, tripod bool) (S, error)) ([2]S, error) {
	return startSides(ctx, func(ctx context.Context, side int) (S, error) { return start(ctx, side == 1 && !AgainstStock) })
}

// startSides calls start for both sides at the same time. 0 is the side of stock, 1 that of Tripod.
func startSides[S any](ctx context.Context, start func(ctx context.Context, side int) (S, error)) ([2]S, error) {
	var sides [2]S
	starting, ctx := errgroup.WithContext(ctx)
	for i := range sides {
		starting.Go(func() (err error) {
			sides[i], err = start(ctx, i)
			return err
		})
	}
	return sides, starting.Wait()
}

// StartClusters starts a stock kube-apiserver with flags, and `tripod up` with arguments. With AgainstStock, the kube-apiserver that takes the place of Tripod
// is always the one of this version of Kubernetes.
func StartClusters(ctx context.Context, env *framework.Environment, flags, arguments []string) ([2]*framework.Cluster, error) {
	clusters, err := startClusters(ctx, env, slices.Concat(flags, EmulationFlags()), slices.Concat(arguments, EmulationFlags()))
	if err != nil {
		return clusters, err
	}
	for side, cluster := range clusters {
		// A kube-apiserver of the older version emulates none.
		if side == 0 && Stock != "" {
			continue
		}
		if err := ExpectEmulation(cluster.Admin()); err != nil {
			return clusters, err
		}
	}
	return clusters, nil
}

func startClusters(ctx context.Context, env *framework.Environment, flags, arguments []string) ([2]*framework.Cluster, error) {
	return startSides(ctx, func(ctx context.Context, side int) (*framework.Cluster, error) {
		if side == 1 && !AgainstStock {
			up, err := env.StartTripod(ctx, framework.TripodOptions{Args: arguments})
			if err != nil {
				return nil, err
			}
			return up.Cluster, nil
		}
		options := framework.StockOptions{Args: flags}
		if side == 0 {
			options.Binary = Stock
		}
		stock, err := env.StartStock(ctx, options)
		if err != nil {
			return nil, err
		}
		return stock.Cluster, nil
	})
}

// Each calls do for both sides at the same time.
func Each[S any](ctx context.Context, sides [2]S, do func(context.Context, S) error) error {
	group, ctx := errgroup.WithContext(ctx)
	for _, side := range sides {
		group.Go(func() error { return do(ctx, side) })
	}
	return group.Wait()
}

// Run runs a test on both sides at the same time, as subtests stock and tripod.
func Run[S any](t *testing.T, sides [2]S, test func(t *testing.T, side S)) {
	for i, side := range sides {
		t.Run(names[i], func(t *testing.T) {
			t.Parallel()
			test(t, side)
		})
	}
}

// RunFresh runs a test that starts its own server, as subtests stock and tripod at the same time. Each has its own environment, which ends
// with it.
func RunFresh(t *testing.T, test func(t *testing.T, env *framework.Environment, tripod bool)) {
	Run(t, [2]bool{false, !AgainstStock}, func(t *testing.T, tripod bool) { test(t, framework.ForTest(t), tripod) })
}
