// Copyright The Tripod Authors.
// SPDX-License-Identifier: Apache-2.0

package behaviour

import (
	"context"
	"errors"
	"flag"
	"io"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"

	"github.com/tripod-k8s/tripod/test/framework"
	"github.com/tripod-k8s/tripod/test/framework/both"
)

var (
	// cluster has default options. The tests of this package share it.
	cluster *framework.Cluster
	// environment owns what a test starts for others as well.
	environment *framework.Environment
	// optional has aggregator routing and the feature gate of CBOR. It starts when a test asks for it.
	optional = sync.OnceValues(func() (*framework.Cluster, error) {
		return start(context.Background(), "--enable-aggregator-routing", "--feature-gates=CBORServingAndStorage=true")
	})
)

func TestMain(m *testing.M) {
	// Most of the time tests wait for servers, not for a processor. The command line may say otherwise.
	if err := flag.Set("test.parallel", "8"); err != nil {
		panic(err)
	}
	framework.Main(m, func(ctx context.Context, env *framework.Environment) (err error) {
		environment = env
		cluster, err = start(ctx)
		return err
	})
}

// start starts a cluster with flags of kube-apiserver.
func start(ctx context.Context, flags ...string) (*framework.Cluster, error) {
	if both.AgainstStock {
		stock, err := environment.StartStock(ctx, framework.StockOptions{Args: flags})
		if err != nil {
			return nil, err
		}
		return stock.Cluster, nil
	}
	var args []string
	for _, flag := range flags {
		args = append(args, "--aggregator-arg="+flag)
		if flag != "--enable-aggregator-routing" {
			args = append(args, "--core-arg="+flag, "--extensions-arg="+flag)
		}
	}
	tripod, err := environment.StartTripod(ctx, framework.TripodOptions{Args: args})
	if err != nil {
		return nil, err
	}
	return tripod.Cluster, nil
}

// needsEtcd skips a test in a run with kine, with the reason.
func needsEtcd(t testing.TB, why string) {
	t.Helper()
	if framework.Kine() != "" {
		t.Skip("not with kine: " + why)
	}
}

// giveUp ends a wait that would never end; it says nothing about how fast anything is.
const giveUp = time.Minute

func kubeClient(t testing.TB, config *rest.Config) kubernetes.Interface {
	t.Helper()
	client, err := kubernetes.NewForConfig(config)
	require.NoError(t, err)
	return client
}

func dynamicClient(t testing.TB, config *rest.Config) dynamic.Interface {
	t.Helper()
	client, err := dynamic.NewForConfig(config)
	require.NoError(t, err)
	return client
}

func createNamespace(t testing.TB) string {
	t.Helper()
	return framework.CreateNamespace(t, cluster)
}

// create creates an object that nothing should be wrong with.
func create(t testing.TB, client dynamic.ResourceInterface, object *unstructured.Unstructured) *unstructured.Unstructured {
	t.Helper()
	created, err := client.Create(t.Context(), object, metav1.CreateOptions{})
	require.NoError(t, err)
	return created
}

// unless returns nil where an error is the expected one.
func unless(expected func(error) bool, err error) error {
	switch {
	case expected(err):
		return nil
	case err == nil:
		return errors.New("no error")
	}
	return err
}

// closing closes what was only read.
func closing(c io.Closer) { _ = c.Close() }
