// Copyright The Tripod Authors.
// SPDX-License-Identifier: Apache-2.0

package endpoints

import (
	"context"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	clientv3 "go.etcd.io/etcd/client/v3"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"

	"github.com/tripod-k8s/tripod/test/framework"
)

// leases are where servers record that they run.
const leases = "/registry/masterleases/"

// port is the one that core is configured to publish, as in the kubernetes Service.
const port = 6443

// state is which addresses serve the API, as a cluster publishes them.
type state struct{ leases, endpoints, slice []string }

func read(ctx context.Context, client kubernetes.Interface, etcd *clientv3.Client) (state, int32, error) {
	var s state
	stored, err := framework.Stored(ctx, etcd, leases)
	if err != nil {
		return s, 0, err
	}
	for key := range maps.Keys(stored) {
		s.leases = append(s.leases, strings.TrimPrefix(key, leases))
	}
	endpoints, err := client.CoreV1().Endpoints(metav1.NamespaceDefault).Get(ctx, "kubernetes", metav1.GetOptions{})
	if err != nil {
		return s, 0, err
	}
	var named int32
	for _, subset := range endpoints.Subsets {
		for _, address := range subset.Addresses {
			s.endpoints = append(s.endpoints, address.IP)
		}
		named = subset.Ports[0].Port
	}
	slice, err := client.DiscoveryV1().EndpointSlices(metav1.NamespaceDefault).Get(ctx, "kubernetes", metav1.GetOptions{})
	if err != nil {
		return s, 0, err
	}
	for _, endpoint := range slice.Endpoints {
		s.slice = append(s.slice, endpoint.Addresses...)
	}
	for _, addresses := range [][]string{s.leases, s.endpoints, s.slice} {
		slices.Sort(addresses)
	}
	return s, named, nil
}

func check(ctx context.Context, client kubernetes.Interface, etcd *clientv3.Client, want ...string) error {
	s, _, err := read(ctx, client, etcd)
	if err != nil {
		return err
	}
	for what, got := range map[string][]string{"leases": s.leases, "endpoints": s.endpoints, "endpoints of the slice": s.slice} {
		if !slices.Equal(got, want) {
			return fmt.Errorf("%s are %q, want %q", what, got, want)
		}
	}
	return nil
}

func newClient(t *testing.T, cluster *framework.Cluster) kubernetes.Interface {
	t.Helper()
	client, err := kubernetes.NewForConfig(cluster.Admin())
	require.NoError(t, err)
	return client
}

func TestAggregatorsAreTheEndpointsOfTheKubernetesService(t *testing.T) {
	dir := t.TempDir() // outlives the environment
	environment := framework.ForTest(t)
	url, err := environment.StartEtcd(t.Context(), dir)
	require.NoError(t, err)
	core := []string{"--endpoint-reconciler-type=lease", fmt.Sprintf("--advertise-port=%d", port), "--advertise-address=198.51.100.99"}
	at := func(address string) []string { return []string{"--advertise-address=" + address} }
	fleet, err := environment.StartFleet(t.Context(), framework.FleetOptions{EtcdURL: url, Replicas: []framework.ReplicaOptions{
		{Name: "core-0", Args: core}, {Name: "core-1", Args: core}, {Name: "extensions-0"},
		{Name: "aggregator-0", Args: at("198.51.100.1")},
		{Name: "aggregator-1", Args: at("198.51.100.2")},
		{Name: "aggregator-2", Args: at("198.51.100.2")}, // on the same host
		{Name: "aggregator-3", Args: at("198.51.100.3")},
		{Name: "aggregator-4", Args: at("127.0.0.1"), Later: true},
	}})
	require.NoError(t, err)
	etcd, client := framework.Etcd(t, url), newClient(t, fleet.Cluster)
	eventually := func(what string, want ...string) {
		t.Helper()
		framework.Eventually(t, what, func(ctx context.Context) error { return check(ctx, client, etcd, want...) })
	}
	atOnce := func(what string, want ...string) {
		t.Helper()
		assert.NoError(t, check(t.Context(), client, etcd, want...), what)
	}
	eventually("all aggregators are endpoints", "198.51.100.1", "198.51.100.2", "198.51.100.3")
	if _, named, err := read(t.Context(), client, etcd); err != nil || named != port {
		t.Errorf("the port of the endpoints is %d: %v", named, err)
	}

	require.NoError(t, fleet.Replica("aggregator-1").Stop())
	atOnce("one stopped, another has its address", "198.51.100.1", "198.51.100.2", "198.51.100.3")
	require.NoError(t, fleet.Replica("aggregator-2").Stop())
	atOnce("both stopped", "198.51.100.1", "198.51.100.3")
	require.NoError(t, fleet.Replica("aggregator-3").Kill())
	eventually("the lease of one that was killed ends", "198.51.100.1")

	// core may stop and start: the endpoints stay.
	require.NoError(t, fleet.Replica("core-0").Stop())
	atOnce("a core stopped", "198.51.100.1")

	// The API does not take the address of a loopback interface, and the others do not suffer from it.
	require.NoError(t, fleet.Replica("aggregator-4").Start())
	require.NoError(t, fleet.Replica("aggregator-4").WaitReady(t.Context()))
	require.NoError(t, fleet.Replica("aggregator-3").Start())
	eventually("one came back", "198.51.100.1", "198.51.100.3")
	checkConfigMap(t, client, fleet.Cluster)
}

// checkConfigMap compares what API servers behind the aggregator trust with the CAs that the aggregator uses.
func checkConfigMap(t *testing.T, client kubernetes.Interface, cluster *framework.Cluster) {
	t.Helper()
	published, err := client.CoreV1().ConfigMaps(metav1.NamespaceSystem).Get(t.Context(), "extension-apiserver-authentication", metav1.GetOptions{})
	require.NoError(t, err)
	for key, file := range map[string]string{"client-ca-file": "ca.crt", "requestheader-client-ca-file": "front-proxy-ca.crt"} {
		want, err := os.ReadFile(filepath.Join(cluster.PKI, file))
		require.NoError(t, err)
		assert.Equal(t, string(want), published.Data[key], "%s is not %s", key, file)
	}
	assert.Equal(t, `["front-proxy-client"]`, published.Data["requestheader-allowed-names"], "requestheader-allowed-names")
}

func TestTheDropInAndKubeAPIServerKeepTheirOwnEndpoints(t *testing.T) {
	environment := framework.ForTest(t)
	const stockAddress, dropInAddress = "198.51.100.1", "198.51.100.2"
	stock, err := environment.StartStock(t.Context(), framework.StockOptions{Args: []string{"--advertise-address=" + stockAddress}})
	require.NoError(t, err)
	dropIn, err := stock.Beside(t.Context(), true, "--advertise-address="+dropInAddress)
	require.NoError(t, err)
	etcd, client := framework.Etcd(t, stock.EtcdURL), newClient(t, stock.Cluster)
	framework.Eventually(t, "both are endpoints", func(ctx context.Context) error { return check(ctx, client, etcd, stockAddress, dropInAddress) })
	checkConfigMap(t, newClient(t, dropIn.Cluster), dropIn.Cluster)
	service, err := client.CoreV1().Services(corev1.NamespaceDefault).Get(t.Context(), "kubernetes", metav1.GetOptions{})
	if err != nil || service.Spec.Ports[0].Port != 443 {
		t.Errorf("the Service is %v: %v", service, err)
	}

	require.NoError(t, dropIn.Process.Stop())
	assert.NoError(t, check(t.Context(), client, etcd, stockAddress), "the drop-in stopped")
	if dropIn, err = stock.Beside(t.Context(), true, "--advertise-address="+dropInAddress); err != nil {
		t.Fatal(err)
	}
	client = newClient(t, dropIn.Cluster)
	framework.Eventually(t, "both are endpoints again", func(ctx context.Context) error { return check(ctx, client, etcd, stockAddress, dropInAddress) })
	require.NoError(t, stock.Process.Stop())
	assert.NoError(t, check(t.Context(), client, etcd, dropInAddress), "kube-apiserver stopped")
	// The last one is removed when it stops, as kube-apiserver is.
	require.NoError(t, dropIn.Process.Stop())
	left, err := framework.Stored(t.Context(), etcd, leases)
	if err != nil || len(left) > 0 {
		t.Errorf("these leases are left: %v, %v", left, err)
	}
}
