// Copyright The Tripod Authors.
// SPDX-License-Identifier: Apache-2.0

package aggregated

import (
	"fmt"
	"net"
	"slices"
	"strconv"

	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	utilproxy "k8s.io/apiserver/pkg/util/proxy"
	corelisters "k8s.io/client-go/listers/core/v1"
	apiregistrationv1 "k8s.io/kube-aggregator/pkg/apis/apiregistration/v1"
)

// Problem says why the aggregator cannot reach an API server. Status, reason and message are those of kube-aggregator.
type Problem struct {
	Status          apiregistrationv1.ConditionStatus
	Reason, Message string
}

func problem(reason, format string, args ...any) *Problem {
	return &Problem{Status: apiregistrationv1.ConditionFalse, Reason: reason, Message: fmt.Sprintf(format, args...)}
}

// notResolved is kube-aggregator's answer for a Service that passes its checks but has no address.
func notResolved(err error) *Problem {
	return problem("FailedDiscoveryCheck", "%s", err)
}

// resolver finds the addresses of a Service.
type resolver struct {
	services corelisters.ServiceLister
	slices   utilproxy.EndpointSliceGetter
	// byEndpoint is true if resolve returns endpoints, not the cluster IP.
	byEndpoint bool
}

// resolve returns either a problem, or at least one address (host:port).
func (r *resolver) resolve(ref apiregistrationv1.ServiceReference) ([]string, *Problem) {
	service, err := r.services.Services(ref.Namespace).Get(ref.Name)
	switch {
	case apierrors.IsNotFound(err):
		return nil, problem("ServiceNotFound", "service/%s in %q is not present", ref.Name, ref.Namespace)
	case err != nil:
		return nil, unknown("ServiceAccessError", ref, err)
	}
	slices, err := r.slices.GetEndpointSlices(ref.Namespace, ref.Name)
	if err != nil {
		return nil, unknown("EndpointsAccessError", ref, err)
	}
	if service.Spec.Type == corev1.ServiceTypeClusterIP {
		if problem := check(ref, service, slices); problem != nil {
			return nil, problem
		}
	}
	if !r.byEndpoint {
		location, err := utilproxy.ResolveCluster(r.services, ref.Namespace, ref.Name, *ref.Port)
		if err != nil {
			return nil, notResolved(err)
		}
		return []string{location.Host}, nil
	}
	// kube-aggregator takes one of the endpoints that this function finds.
	if _, err := utilproxy.ResolveEndpoint(r.services, r.slices, ref.Namespace, ref.Name, *ref.Port); err != nil {
		return nil, notResolved(err)
	}
	// ResolveEndpoint has read the Service and its endpoints again. They may have changed in between.
	port := portOf(service, *ref.Port)
	if port == nil {
		return nil, problem("ServicePortError", "service/%s in %q is not listening on port %d", ref.Name, ref.Namespace, *ref.Port)
	}
	endpoints := endpointsOf(service, port.Name, slices)
	if len(endpoints) == 0 {
		return nil, problem("MissingEndpoints", "endpointslices for service/%s in %q have no addresses with port name %q", ref.Name,
			ref.Namespace, port.Name)
	}
	return endpoints, nil
}

func unknown(reason string, ref apiregistrationv1.ServiceReference, err error) *Problem {
	p := problem(reason, "service/%s in %q cannot be checked due to: %v", ref.Name, ref.Namespace, err)
	p.Status = apiregistrationv1.ConditionUnknown
	return p
}

// check repeats kube-aggregator's checks of a Service with a cluster IP.
func check(ref apiregistrationv1.ServiceReference, service *corev1.Service, all []*discoveryv1.EndpointSlice) *Problem {
	port := portOf(service, *ref.Port)
	switch {
	case port == nil:
		return problem("ServicePortError", "service/%s in %q is not listening on port %d", ref.Name, ref.Namespace, *ref.Port)
	case len(all) == 0:
		return problem("EndpointsNotFound", "cannot find endpointslices for service/%s in %q", ref.Name, ref.Namespace)
	case !slices.ContainsFunc(all, func(s *discoveryv1.EndpointSlice) bool { return len(addressesOf(s, port.Name)) > 0 }):
		return problem("MissingEndpoints", "endpointslices for service/%s in %q have no addresses with port name %q", ref.Name, ref.Namespace,
			port.Name)
	}
	return nil
}

func portOf(service *corev1.Service, port int32) *corev1.ServicePort {
	i := slices.IndexFunc(service.Spec.Ports, func(p corev1.ServicePort) bool { return p.Port == port })
	if i < 0 {
		return nil
	}
	return &service.Spec.Ports[i]
}

// endpointsOf returns the addresses of all ready endpoints. If the Service's first IP family has any, it returns only those.
// utilproxy.ResolveEndpoint takes one of these addresses.
func endpointsOf(service *corev1.Service, port string, all []*discoveryv1.EndpointSlice) []string {
	var preferred, others []string
	for _, slice := range all {
		addresses := addressesOf(slice, port)
		if families := service.Spec.IPFamilies; len(families) == 0 || slice.AddressType == discoveryv1.AddressType(families[0]) {
			preferred = append(preferred, addresses...)
		} else {
			others = append(others, addresses...)
		}
	}
	addresses := preferred
	if len(addresses) == 0 {
		addresses = others
	}
	slices.Sort(addresses)
	return slices.Compact(addresses)
}

// addressesOf returns the ready endpoints of a slice that have the port.
func addressesOf(slice *discoveryv1.EndpointSlice, port string) []string {
	var addresses []string
	for _, p := range slice.Ports {
		if p.Name == nil || *p.Name != port || p.Port == nil {
			continue
		}
		for _, e := range slice.Endpoints {
			if ready := e.Conditions.Ready; (ready == nil || *ready) && len(e.Addresses) > 0 {
				// An endpoint has one address, says the documentation of EndpointSlices.
				addresses = append(addresses, net.JoinHostPort(e.Addresses[0], strconv.Itoa(int(*p.Port))))
			}
		}
	}
	return addresses
}
