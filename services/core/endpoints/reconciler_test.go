// Copyright The Tripod Authors.
// SPDX-License-Identifier: Apache-2.0

package endpoints

import (
	"maps"
	"net"
	"net/netip"
	"slices"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apiserver/pkg/storage"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/kubernetes/fake"
	"k8s.io/kubernetes/pkg/controlplane/reconcilers"
)

// leases are those of /registry/masterleases, shared by all replicas of core.
type leases map[string]bool

func (l leases) ListLeases() ([]string, error) { return slices.Sorted(maps.Keys(l)), nil }
func (l leases) UpdateLease(ip string) error   { l[ip] = true; return nil }
func (l leases) Destroy()                      {}
func (l leases) RemoveLease(ip string) (e error) {
	if !l[ip] {
		return storage.NewKeyNotFoundError(ip, 0)
	}
	delete(l, ip)
	return nil
}

func newLeased(client kubernetes.Interface, l leases, port int) *Reconciler {
	adapter := reconcilers.NewEndpointsAdapter(client.CoreV1(), client.DiscoveryV1())
	return NewReconciler(Stock{
		Keep:   reconcilers.NewLeaseEndpointReconciler(adapter, l),
		Remove: reconcilers.NewLeaseEndpointReconciler(adapter, l),
	}, port)
}

// tick does what the controller of kube-apiserver does every 10 seconds, with the address of core.
func tick(t *testing.T, r *Reconciler) {
	t.Helper()
	if err := r.ReconcileEndpoints(service, net.IPv4(192, 0, 2, 99), []corev1.EndpointPort{{Name: portName, Port: 1}}, false); err != nil {
		t.Errorf("reconcile: %v", err)
	}
}

func expect(t *testing.T, client kubernetes.Interface, port int32, want ...string) {
	t.Helper()
	var got []string
	e, err := client.CoreV1().Endpoints(metav1.NamespaceDefault).Get(t.Context(), service, metav1.GetOptions{})
	if err != nil && !errors.IsNotFound(err) {
		t.Fatal(err)
	}
	for _, subset := range e.Subsets {
		for _, address := range subset.Addresses {
			got = append(got, address.IP)
		}
		if len(subset.Ports) != 1 || subset.Ports[0].Port != port {
			t.Errorf("ports are %v, want %d", subset.Ports, port)
		}
	}
	assert.Equal(t, want, got, "endpoints")
	s, err := client.DiscoveryV1().EndpointSlices(metav1.NamespaceDefault).Get(t.Context(), service, metav1.GetOptions{})
	if err != nil && !errors.IsNotFound(err) {
		t.Fatal(err)
	}
	var sliced []string
	for _, endpoint := range s.Endpoints {
		sliced = append(sliced, endpoint.Addresses...)
	}
	assert.Equal(t, want, sliced, "endpoints of the slice")
}

func add(t *testing.T, address string, to ...*Reconciler) {
	t.Helper()
	for _, r := range to {
		require.NoError(t, r.Add(netip.MustParseAddrPort(address)))
	}
}

func remove(t *testing.T, address string, from ...*Reconciler) {
	t.Helper()
	for _, r := range from {
		require.NoError(t, r.Remove(netip.MustParseAddrPort(address)))
	}
}

func TestEndpointsAreTheAggregators(t *testing.T) {
	client, l := fake.NewClientset(), leases{}
	one, other := newLeased(client, l, 0), newLeased(client, l, 0)

	// Before core is ready nothing happens, and without an aggregator neither.
	add(t, "192.0.2.1:6443", one, other)
	expect(t, client, 6443)
	tick(t, one)
	expect(t, client, 6443, "192.0.2.1")
	tick(t, other)
	add(t, "192.0.2.2:6443", one, other)
	expect(t, client, 6443, "192.0.2.1", "192.0.2.2")

	// A kube-apiserver on the same etcd has a lease, too, which core does not take away.
	l["192.0.2.7"] = true
	tick(t, one)
	expect(t, client, 6443, "192.0.2.1", "192.0.2.2", "192.0.2.7")

	// The lease of one that is lost is not renewed, and so ends some time.
	one.Forget(netip.MustParseAddrPort("192.0.2.2:6443"))
	other.Forget(netip.MustParseAddrPort("192.0.2.2:6443"))
	tick(t, one)
	expect(t, client, 6443, "192.0.2.1", "192.0.2.2", "192.0.2.7")
	delete(l, "192.0.2.2")
	tick(t, one)
	tick(t, other)
	expect(t, client, 6443, "192.0.2.1", "192.0.2.7")

	// One that stops is removed at once, though another replica of core renews meanwhile.
	remove(t, "192.0.2.1:6443", one)
	expect(t, client, 6443, "192.0.2.7")
	tick(t, other)
	remove(t, "192.0.2.1:6443", other)
	expect(t, client, 6443, "192.0.2.7")
	assert.False(t, l["192.0.2.1"], "the lease of an aggregator that stopped is left")
}

func TestAnAggregatorWhoseLeaseIsGoneAlreadyIsRemoved(t *testing.T) {
	client, l := fake.NewClientset(), leases{}
	r := newLeased(client, l, 0)
	tick(t, r)
	add(t, "192.0.2.1:6443", r)
	add(t, "192.0.2.2:6443", r)
	// Another replica of core removed it, and this one wrote the endpoints that it had read before.
	delete(l, "192.0.2.2")
	expect(t, client, 6443, "192.0.2.1", "192.0.2.2")
	remove(t, "192.0.2.2:6443", r)
	expect(t, client, 6443, "192.0.2.1")
}

// writes counts what was written to the API.
func writes(client *fake.Clientset) int {
	n := 0
	for _, action := range client.Actions() {
		if action.GetVerb() != "get" && action.GetVerb() != "list" {
			n++
		}
	}
	return n
}

func TestAggregatorsOnOneHostAreOneEndpoint(t *testing.T) {
	client, l := fake.NewClientset(), leases{}
	r := newLeased(client, l, 443)
	tick(t, r)
	add(t, "192.0.2.1:6443", r)
	add(t, "192.0.2.1:6444", r)
	expect(t, client, 443, "192.0.2.1")
	before := writes(client)
	remove(t, "192.0.2.1:6443", r)
	expect(t, client, 443, "192.0.2.1")
	if got := writes(client); got != before {
		t.Errorf("it was away in between: there were %d writes", got-before)
	}
	// The last one is removed, as by a kube-apiserver that stops.
	remove(t, "192.0.2.1:6444", r)
	expect(t, client, 443)
	add(t, "192.0.2.1:6443", r)
	expect(t, client, 443, "192.0.2.1")
}

func TestTheSameAggregatorTwiceIsOneEndpointUntilBothAreGone(t *testing.T) {
	client, l := fake.NewClientset(), leases{}
	r := newLeased(client, l, 0)
	tick(t, r)
	// The call of a connection that was lost may end after the next one began.
	add(t, "192.0.2.1:6443", r)
	add(t, "192.0.2.1:6443", r)
	r.Forget(netip.MustParseAddrPort("192.0.2.1:6443"))
	delete(l, "192.0.2.1")
	tick(t, r)
	assert.True(t, l["192.0.2.1"], "the lease is not renewed")
}

func TestCoreItselfIsNoEndpoint(t *testing.T) {
	client, l := fake.NewClientset(), leases{}
	r := newLeased(client, l, 0)
	if err := r.RemoveEndpoints(service, net.IPv4(192, 0, 2, 99), nil); !storage.IsNotFound(err) {
		t.Errorf("at its start core finds something of its own: %v", err)
	}
	add(t, "192.0.2.1:6443", r)
	tick(t, r)
	r.StopReconciling()
	assert.NoError(t, r.RemoveEndpoints(service, net.IPv4(192, 0, 2, 99), nil), "when it stops")
	expect(t, client, 6443, "192.0.2.1")
	if err := r.Add(netip.MustParseAddrPort("192.0.2.2:6443")); err == nil {
		t.Error("a core that stops takes an aggregator")
	}
	r.Destroy()
}

func TestMasterCountIsKept(t *testing.T) {
	client := fake.NewClientset()
	adapter := reconcilers.NewEndpointsAdapter(client.CoreV1(), client.DiscoveryV1())
	r := NewReconciler(Stock{Keep: reconcilers.NewMasterCountEndpointReconciler(2, adapter)}, 0)
	tick(t, r)
	add(t, "192.0.2.1:6443", r)
	add(t, "192.0.2.2:6443", r)
	expect(t, client, 6443, "192.0.2.1", "192.0.2.2")
	remove(t, "192.0.2.1:6443", r)
	expect(t, client, 6443, "192.0.2.2")
}

func TestAddressesThatCannotBeEndpoints(t *testing.T) {
	for address, valid := range map[string]bool{
		"192.0.2.1:6443": true, "[2001:db8::1]:6443": true,
		"127.0.0.1:6443": false, "[::1]:6443": false, "0.0.0.0:6443": false, "169.254.0.1:6443": false, "224.0.0.1:6443": false, "192.0.2.1:0": false,
	} {
		if err := Validate(netip.MustParseAddrPort(address)); (err == nil) != valid {
			t.Errorf("%s: %v", address, err)
		}
	}
}
