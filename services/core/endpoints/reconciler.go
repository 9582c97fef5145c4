// Copyright The Tripod Authors.
// SPDX-License-Identifier: Apache-2.0

package endpoints

import (
	"cmp"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"slices"
	"sync"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/validation/field"
	"k8s.io/apiserver/pkg/storage"
	"k8s.io/kubernetes/pkg/apis/core/validation"
	"k8s.io/kubernetes/pkg/controlplane/reconcilers"
)

// service is the name of the Service whose endpoints core keeps, and portName the name of its port.
const (
	service  = "kubernetes"
	portName = "https"
)

// errStopped is returned for an aggregator that starts or stops while core stops. Other replicas of core know it, too.
var errStopped = errors.New("core stops")

// Stock has kube-apiserver's reconcilers, which write the same endpoints and leases.
type Stock struct {
	// Keep creates and renews endpoints.
	Keep reconcilers.EndpointReconciler
	// Remove removes endpoints, even the last one. kube-apiserver's reconciler does so only after StopReconciling, so it cannot be the same
	// one as Keep. Remove may be nil; then Keep does both.
	Remove reconcilers.EndpointReconciler
}

// Reconciler makes kube-apiserver's controller of the kubernetes Service reconcile for the aggregators instead of for its own server. It
// implements reconcilers.EndpointReconciler.
type Reconciler struct {
	stock Stock
	// port is the port of all endpoints, or 0 if each aggregator names its own.
	port int

	// mu is also held while endpoints change, so that nothing renews an endpoint while it is removed.
	mu      sync.Mutex
	started bool
	stopped bool
	// calls counts the aggregators at each address.
	calls map[netip.AddrPort]int
}

var _ reconcilers.EndpointReconciler = &Reconciler{}

// NewReconciler returns a reconciler that knows no aggregator yet. port is the port of all endpoints, as in the kubernetes Service, or 0 if
// each aggregator names its own.
func NewReconciler(stock Stock, port int) *Reconciler {
	if stock.Remove == nil {
		stock.Remove = stock.Keep
	} else {
		stock.Remove.StopReconciling()
	}
	return &Reconciler{stock: stock, port: port, calls: map[netip.AddrPort]int{}}
}

// Validate returns an error if the API does not allow the address as an endpoint.
func Validate(address netip.AddrPort) error {
	if errs := validation.ValidateEndpointIP(address.Addr().String(), field.NewPath("address")); len(errs) > 0 {
		return errs.ToAggregate()
	}
	if address.Port() == 0 {
		return fmt.Errorf("port: must not be 0")
	}
	return nil
}

// Add adds an aggregator to the endpoints. If core already keeps the endpoints, Add writes them at once.
func (r *Reconciler) Add(address netip.AddrPort) error {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.stopped {
		return errStopped
	}
	r.calls[address]++
	if !r.started || r.calls[address] > 1 {
		return nil
	}
	// If this fails, the controller soon tries again.
	_ = r.keep(address)
	return nil
}

// Forget forgets an aggregator that was lost. Its lease expires by itself, unless another replica of core renews it.
func (r *Reconciler) Forget(address netip.AddrPort) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.forget(address)
}

func (r *Reconciler) forget(address netip.AddrPort) {
	if r.calls[address]--; r.calls[address] <= 0 {
		delete(r.calls, address)
	}
}

// Remove removes an aggregator that is about to stop. When Remove returns, the aggregator is no endpoint, unless others have its address.
func (r *Reconciler) Remove(address netip.AddrPort) error {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.forget(address)
	for other := range r.calls {
		if other.Addr() == address.Addr() {
			return nil
		}
	}
	if r.stopped {
		return errStopped
	}
	err := r.stock.Remove.RemoveEndpoints(service, net.IP(address.Addr().AsSlice()), r.ports(address))
	if err != nil && !storage.IsNotFound(err) {
		return fmt.Errorf("remove %s from the endpoints of the kubernetes Service: %w", address.Addr(), err)
	}
	// Another replica of core may have removed the lease while this one still renewed the endpoints.
	return r.keepAll()
}

// ReconcileEndpoints implements reconcilers.EndpointReconciler. kube-apiserver's controller calls it regularly once core is ready. It
// ignores the address, which is core's.
func (r *Reconciler) ReconcileEndpoints(string, net.IP, []corev1.EndpointPort, bool) error {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.stopped {
		return nil
	}
	r.started = true
	return r.keepAll()
}

// ValidateIP implements reconcilers.EndpointReconciler. The address is core's, which is no endpoint; [Validate] is for those of
// aggregators.
func (r *Reconciler) ValidateIP(net.IP) error { return nil }

// keepAll renews one endpoint for each IP address.
func (r *Reconciler) keepAll() error {
	var known []netip.AddrPort
	for address := range r.calls {
		known = append(known, address)
	}
	slices.SortFunc(known, func(a, b netip.AddrPort) int { return a.Compare(b) })
	known = slices.CompactFunc(known, func(a, b netip.AddrPort) bool { return a.Addr() == b.Addr() })
	var errs []error
	for _, address := range known {
		errs = append(errs, r.keep(address))
	}
	return errors.Join(errs...)
}

func (r *Reconciler) keep(address netip.AddrPort) error {
	return r.stock.Keep.ReconcileEndpoints(service, net.IP(address.Addr().AsSlice()), r.ports(address), false)
}

func (r *Reconciler) ports(address netip.AddrPort) []corev1.EndpointPort {
	port := cmp.Or(r.port, int(address.Port()))
	return []corev1.EndpointPort{{Name: portName, Port: int32(port), Protocol: corev1.ProtocolTCP}}
}

// RemoveEndpoints implements reconcilers.EndpointReconciler. kube-apiserver calls it when it starts and stops. It does nothing: core has no
// endpoint of its own, and the aggregators may still serve.
func (r *Reconciler) RemoveEndpoints(string, net.IP, []corev1.EndpointPort) error {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.stopped {
		return nil
	}
	// kube-apiserver expects this error when it starts and has nothing to remove.
	return storage.NewKeyNotFoundError(service, 0)
}

// StopReconciling implements reconcilers.EndpointReconciler.
func (r *Reconciler) StopReconciling() {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.stopped = true
	r.stock.Keep.StopReconciling()
}

// Destroy implements reconcilers.EndpointReconciler.
func (r *Reconciler) Destroy() {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.stock.Keep.Destroy()
	r.stock.Remove.Destroy()
}
