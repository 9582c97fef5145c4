// Copyright The Tripod Authors.
// SPDX-License-Identifier: Apache-2.0

package behaviour

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	clientv3 "go.etcd.io/etcd/client/v3"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/discovery"
	"k8s.io/client-go/dynamic"

	"github.com/tripod-k8s/tripod/admin/etcd/access"
	"github.com/tripod-k8s/tripod/test/framework"
)

// TestEachServiceReachesWhatItStoresAndNoMore turns on all APIs of Kubernetes, and lists all of their resources. Then it uses the files of each
// service.
func TestEachServiceReachesWhatItStoresAndNoMore(t *testing.T) {
	needsEtcd(t, "it has no users")
	t.Parallel()
	var args []string
	for _, service := range []string{"core", "extensions", "aggregator"} {
		args = append(args, "--"+service+"-arg=--runtime-config=api/all=true")
	}
	tripod := startTripod(t, framework.TripodOptions{Args: args})
	gvr, err := createCRD(t.Context(), tripod.Cluster, newWidgets())
	require.NoError(t, err)
	r := resource{gvr, "Widget"}
	create(t, r.of(t, tripod.Cluster, framework.CreateNamespace(t, tripod.Cluster)), r.object("a", "red"))
	listEverything(t, tripod.Cluster)
	for _, service := range []string{"core-0", "extensions-0", "aggregator-0"} {
		log, err := os.ReadFile(tripod.Log(service))
		require.NoError(t, err)
		for line := range strings.Lines(string(log)) {
			// Only root may ask for the status.
			if strings.Contains(line, "etcdserver: permission denied") && !strings.Contains(line, "Maintenance/Status") && !strings.Contains(line, "storage metrics") {
				t.Errorf("%s: %s", service, line)
			}
		}
	}

	etcd, err := tripod.Replicas(t.Context(), "etcd")
	require.NoError(t, err)
	for service, want := range map[string]string{"core": "secrets", "extensions": "apiextensions.k8s.io", "aggregator": "apiregistration.k8s.io"} {
		file := func(name string) string { return filepath.Join(tripod.PKI, name) }
		client, err := access.Connect([]string{etcd[0].Address}, file("etcd-ca.crt"), file("etcd-"+service+".crt"), file("etcd-"+service+".key"))
		require.NoError(t, err)
		for _, directory := range []string{"secrets", "apiextensions.k8s.io", "apiregistration.k8s.io"} {
			_, err := client.Get(t.Context(), "/registry/"+directory+"/", clientv3.WithPrefix(), clientv3.WithKeysOnly())
			if directory == want {
				assert.NoError(t, err, "%s reads %s", service, directory)
			} else {
				assert.ErrorContains(t, err, "permission denied", "%s reads %s", service, directory)
			}
		}
		require.NoError(t, client.Close())
	}
}

// listEverything lists all resources of all versions.
func listEverything(t *testing.T, cluster *framework.Cluster) {
	t.Helper()
	config := cluster.Admin()
	finder, err := discovery.NewDiscoveryClientForConfig(config)
	require.NoError(t, err)
	client, err := dynamic.NewForConfig(config)
	require.NoError(t, err)
	_, lists, err := finder.ServerGroupsAndResources()
	require.NoError(t, err)
	listed := 0
	for _, list := range lists {
		version, err := schema.ParseGroupVersion(list.GroupVersion)
		require.NoError(t, err)
		for _, kind := range list.APIResources {
			if !slices.Contains(kind.Verbs, "list") {
				continue
			}
			_, err := client.Resource(version.WithResource(kind.Name)).List(t.Context(), metav1.ListOptions{})
			assert.NoError(t, err, "%s of %s", kind.Name, list.GroupVersion)
			listed++
		}
	}
	assert.Greater(t, listed, 70, "resources")
}
