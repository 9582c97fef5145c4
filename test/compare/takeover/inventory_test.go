// Copyright The Tripod Authors.
// SPDX-License-Identifier: Apache-2.0

package takeover

import (
	"context"
	"maps"
	"regexp"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/stretchr/testify/require"
	clientv3 "go.etcd.io/etcd/client/v3"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/discovery"

	"github.com/tripod-k8s/tripod/test/framework"
	"github.com/tripod-k8s/tripod/test/framework/inventory"
)

func readEtcd(t *testing.T, url string) inventory.Stored {
	t.Helper()
	client, err := clientv3.New(clientv3.Config{Endpoints: []string{url}})
	require.NoError(t, err)
	defer client.Close()
	all, _, err := inventory.ReadEtcd(t.Context(), client)
	require.NoError(t, err)
	return all
}

// restless also matches allocations, which a repair loop writes even if it finds nothing to repair, and the APIService without a server: its
// condition contains the time.
var restless = inventory.Restless(`ranges/|apiregistration.k8s.io/apiservices/v1.metrics.example.com$`)

func isRestless(key string, _, _ inventory.Entry) bool { return restless.MatchString(key) }

// readAPI lists everything in every version.
func readAPI(t *testing.T, cluster *framework.Cluster) inventory.Shown {
	t.Helper()
	client, err := discovery.NewDiscoveryClientForConfig(cluster.Admin())
	require.NoError(t, err)
	var all inventory.Shown
	framework.Eventually(t, cluster.Name+" shows everything", func(ctx context.Context) error {
		_, groups, err := client.ServerGroupsAndResources()
		if err == nil || onlyMetrics(err) {
			all, err = inventory.ReadAPI(ctx, cluster.Admin(), groups)
		}
		return err
	})
	return all
}

// onlyMetrics returns whether discovery failed only for the aggregated API server that does not exist.
func onlyMetrics(err error) bool {
	failed, ok := discovery.GroupDiscoveryFailedErrorGroups(err)
	return ok && len(failed) == 1 && failed[schema.GroupVersion{Group: "metrics.example.com", Version: "v1"}] != nil
}

// restlessObjects are the objects of restless, as the API shows them.
var restlessObjects = regexp.MustCompile(`Resource=(leases kube-system/apiserver-|events |endpoints default/kubernetes$|endpointslices default/kubernetes-?$|` +
	`ipaddresses |apiservices /v1.metrics.example.com$)`)

// compare fails the test if two API servers show different objects.
func compare(t *testing.T, first, second inventory.Shown) {
	t.Helper()
	for _, shown := range []inventory.Shown{first, second} {
		maps.DeleteFunc(shown, func(key string, _ unstructured.Unstructured) bool { return restlessObjects.MatchString(key) })
	}
	if difference := cmp.Diff(first, second); difference != "" {
		t.Errorf("the API shows other objects:\n%s", difference)
	}
	if len(first) < boats {
		t.Errorf("only %d objects are shown", len(first))
	}
}
