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

// service is the name of the Service whose endpoints are kept, and portName that of its port.
const (
	service  = "kubernetes"
	portName = "https"
)

// errStopped is returned for an aggregator that comes or goes while core stops: other replicas of core know it, too.
var errStopped = errors.New("core stops")

// Stock are reconcilers of kube-apiserver over the same endpoints and leases.
type Stock struct {
	// Keep is the one that makes and renews endpoints.
	Keep reconcilers.EndpointReconciler
	// Remove is the one that removes them, even the last one. kube-apiserver's does this only after StopReconciling was called,
	// which is why it is another one. It may be nil.
	Remove reconcilers.EndpointReconciler
}

// Reconciler has kube-apiserver's controller of the kubernetes Service reconcile for the aggregators instead of its own server.
// It implements reconcilers.EndpointReconciler.
type Reconciler struct {
	stock Stock
	// port is that of all endpoints, or 0 if it is what the aggregators say.
	port int

	// mu is also held while endpoints change, so that nothing is renewed that is being removed.
	mu      sync.Mutex
	started bool
	stopped bool
	// calls are how many aggregators there are at an address.
	calls map[netip.AddrPort]int
}

var _ reconcilers.EndpointReconciler = &Reconciler{}

// NewReconciler returns a reconciler that knows no aggregator yet. port is that of all endpoints, as in the kubernetes Service;
// if it is 0, the aggregators say it.
func NewReconciler(stock Stock, port int) *Reconciler {
	if stock.Remove == nil {
		stock.Remove = stock.Keep
	} else {
		stock.Remove.StopReconciling()
	}
	return &Reconciler{stock: stock, port: port, calls: map[netip.AddrPort]int{}}
}

// Validate returns an error for an address that the API does not let be an endpoint, as kube-apiserver finds out from it.
func Validate(address netip.AddrPort) error {
	if errs := validation.ValidateEndpointIP(address.Addr().String(), field.NewPath("address")); len(errs) > 0 {
		return errs.ToAggregate()
	}
	if address.Port() == 0 {
		return fmt.Errorf("port: must not be 0")
	}
	return nil
}

// Add makes an aggregator an endpoint: at once, if the endpoints are kept already.
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
	// What fails is repeated soon.
	_ = r.keep(address)
	return nil
}

// Forget says that nothing is known any more of an aggregator. Its lease ends by itself, unless another replica of core renews it.
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

// Remove says that an aggregator is about to stop. It is no endpoint when Remove returns, unless others have its address.
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

// ReconcileEndpoints implements reconcilers.EndpointReconciler: kube-apiserver's controller calls it all the time from when
// core is ready. The address is that of core, and so does not matter.
func (r *Reconciler) ReconcileEndpoints(string, net.IP, []corev1.EndpointPort, bool) error {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.stopped {
		return nil
	}
	r.started = true
	return r.keepAll()
}

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
	return []corev1.EndpointPort{{Name: portName, Port: int32(port), Protocol: corev1.ProtocolTCP}} //nolint:gosec // a port
}

// RemoveEndpoints implements reconcilers.EndpointReconciler. kube-apiserver calls it when it starts and when it stops. core has no
// endpoint of its own, and those of aggregators are not for it to remove.
func (r *Reconciler) RemoveEndpoints(string, net.IP, []corev1.EndpointPort) error {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.stopped {
		return nil
	}
	// That there is nothing to remove is what kube-apiserver expects at its start.
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
