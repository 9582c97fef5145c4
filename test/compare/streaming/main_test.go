// Copyright The Tripod Authors.
// SPDX-License-Identifier: Apache-2.0

package streaming

import (
	"context"
	"flag"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"

	"github.com/tripod-k8s/tripod/test/framework"
	"github.com/tripod-k8s/tripod/test/framework/both"
)

var (
	// clusters are a stock kube-apiserver and Tripod.
	clusters [2]*framework.Cluster
	// environment owns them.
	environment *framework.Environment
)

func TestMain(m *testing.M) {
	rest.SetDefaultWarningHandler(rest.NoWarnings{})
	// Most of the time tests wait for servers, not for a processor. The command line may say otherwise.
	if err := flag.Set("test.parallel", "4"); err != nil {
		panic(err)
	}
	framework.Main(m, func(ctx context.Context, env *framework.Environment) (err error) {
		environment = env
		clusters, err = both.StartClusters(ctx, env, nil, nil)
		return err
	})
}

// onEach runs a test on each cluster.
func onEach(t *testing.T, test func(t *testing.T, cluster *framework.Cluster)) {
	t.Parallel()
	both.Run(t, clusters, test)
}

// giveUp ends a wait that would never end; it says nothing about how fast anything is.
const giveUp = 2 * time.Minute

// limited returns a context that ends a test that would never end.
func limited(t testing.TB) (context.Context, context.CancelFunc) {
	return context.WithTimeout(t.Context(), giveUp)
}

// receive returns what is next in a channel.
func receive[T any](t testing.TB, what string, from <-chan T) (value T) {
	t.Helper()
	select {
	case value = <-from:
	case <-time.After(giveUp):
		t.Fatalf("waited in vain for %s", what)
	}
	return value
}

func kubeClient(t testing.TB, config *rest.Config) kubernetes.Interface {
	t.Helper()
	client, err := kubernetes.NewForConfig(config)
	require.NoError(t, err)
	return client
}

// standsStill waits until a count that has begun does not change any more, and returns it.
func standsStill(t testing.TB, count *atomic.Int64) int64 {
	t.Helper()
	const interval, calm = 50 * time.Millisecond, 30
	ticker := time.NewTicker(interval)
	defer ticker.Stop()
	ctx, cancel := limited(t)
	defer cancel()
	for last, unchanged := count.Load(), 0; ; {
		select {
		case <-ctx.Done():
			t.Fatalf("waited in vain until %d bytes are not followed by more", last)
		case <-ticker.C:
		}
		now := count.Load()
		if unchanged++; now != last || now == 0 {
			last, unchanged = now, 0
		}
		if unchanged == calm {
			return now
		}
	}
}
