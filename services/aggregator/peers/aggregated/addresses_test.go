// Copyright The Tripod Authors.
// SPDX-License-Identifier: Apache-2.0

package aggregated

import (
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	corelisters "k8s.io/client-go/listers/core/v1"
	"k8s.io/client-go/tools/cache"
	apiregistrationv1 "k8s.io/kube-aggregator/pkg/apis/apiregistration/v1"
	"k8s.io/utils/ptr"
)

// fixed is the list of EndpointSlices of every Service.
type fixed []*discoveryv1.EndpointSlice

func (f fixed) GetEndpointSlices(string, string) ([]*discoveryv1.EndpointSlice, error) { return f, nil }

const (
	ipv4 = discoveryv1.AddressTypeIPv4
	ipv6 = discoveryv1.AddressTypeIPv6
)

func slice(family discoveryv1.AddressType, portName *string, port int32, endpoints ...discoveryv1.Endpoint) *discoveryv1.EndpointSlice {
	return &discoveryv1.EndpointSlice{
		AddressType: family, Endpoints: endpoints,
		Ports: []discoveryv1.EndpointPort{{Name: ptr.To("metrics"), Port: ptr.To[int32](9)}, {Name: portName, Port: &port}},
	}
}

func at(address string, ready *bool) discoveryv1.Endpoint {
	return discoveryv1.Endpoint{Addresses: []string{address}, Conditions: discoveryv1.EndpointConditions{Ready: ready}}
}

func service(change func(*corev1.ServiceSpec)) *corev1.Service {
	s := &corev1.Service{
		ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: "third"},
		Spec: corev1.ServiceSpec{
			Type: corev1.ServiceTypeClusterIP, ClusterIP: "10.0.0.7",
			Ports: []corev1.ServicePort{{Name: "metrics", Port: 9}, {Name: "https", Port: 443}},
		},
	}
	if change != nil {
		change(&s.Spec)
	}
	return s
}

func TestAddresses(t *testing.T) {
	yes, no, https := ptr.To(true), ptr.To(false), ptr.To("https")
	externalName := service(func(s *corev1.ServiceSpec) {
		*s = corev1.ServiceSpec{Type: corev1.ServiceTypeExternalName, ExternalName: "api.example.com"}
	})
	one := fixed{slice(ipv4, https, 8443, at("10.1.0.1", yes))}
	for name, test := range map[string]struct {
		service    *corev1.Service
		slices     fixed
		byEndpoint bool
		want       []string
		reason     string
	}{
		"the cluster IP":                       {service: service(nil), slices: one, want: []string{"10.0.0.7:443"}},
		"an external name":                     {service: externalName, want: []string{"api.example.com:443"}},
		"no Service":                           {reason: "ServiceNotFound"},
		"no such port":                         {service: service(func(s *corev1.ServiceSpec) { s.Ports = s.Ports[:1] }), slices: one, reason: "ServicePortError"},
		"no EndpointSlice":                     {service: service(nil), reason: "EndpointsNotFound"},
		"no endpoint with the port":            {service: service(nil), slices: fixed{slice(ipv4, ptr.To("http"), 8443, at("10.1.0.1", yes))}, reason: "MissingEndpoints"},
		"no ready endpoint":                    {service: service(nil), slices: fixed{slice(ipv4, https, 8443, at("10.1.0.1", no))}, reason: "MissingEndpoints"},
		"a headless Service has no cluster IP": {service: service(func(s *corev1.ServiceSpec) { s.ClusterIP = "None" }), slices: one, reason: "FailedDiscoveryCheck"},

		"a headless Service by endpoint":  {byEndpoint: true, service: service(func(s *corev1.ServiceSpec) { s.ClusterIP = "None" }), slices: one, want: []string{"10.1.0.1:8443"}},
		"an external name by endpoint":    {byEndpoint: true, service: externalName, reason: "FailedDiscoveryCheck"},
		"no endpoint of a node port":      {byEndpoint: true, service: service(func(s *corev1.ServiceSpec) { s.Type = corev1.ServiceTypeNodePort }), reason: "FailedDiscoveryCheck"},
		"a port without a name is no one": {byEndpoint: true, service: service(nil), slices: fixed{slice(ipv4, nil, 8443, at("10.1.0.1", yes))}, reason: "MissingEndpoints"},
		"all ready endpoints of all slices, once": {
			byEndpoint: true, service: service(nil), want: []string{"10.1.0.1:8443", "10.1.0.2:8443", "10.1.0.4:9443"},
			slices: fixed{
				slice(ipv4, https, 8443, at("10.1.0.2", nil), at("10.1.0.1", yes), at("10.1.0.3", no)),
				slice(ipv4, https, 8443, at("10.1.0.1", yes)),
				slice(ipv4, https, 9443, at("10.1.0.4", yes)),
			},
		},
		"the first family of two": {
			byEndpoint: true, want: []string{"[fd00::1]:8443"},
			service: service(func(s *corev1.ServiceSpec) {
				s.IPFamilies = []corev1.IPFamily{corev1.IPv6Protocol, corev1.IPv4Protocol}
			}),
			slices: fixed{slice(ipv4, https, 8443, at("10.1.0.1", yes)), slice(ipv6, https, 8443, at("fd00::1", yes))},
		},
		"the second family where the first has none": {
			byEndpoint: true, want: []string{"10.1.0.1:8443"},
			service: service(func(s *corev1.ServiceSpec) {
				s.IPFamilies = []corev1.IPFamily{corev1.IPv6Protocol, corev1.IPv4Protocol}
			}),
			slices: fixed{slice(ipv4, https, 8443, at("10.1.0.1", yes)), slice(ipv6, https, 8443, at("fd00::1", no))},
		},
	} {
		t.Run(name, func(t *testing.T) {
			services := cache.NewIndexer(cache.MetaNamespaceKeyFunc, cache.Indexers{cache.NamespaceIndex: cache.MetaNamespaceIndexFunc})
			if test.service != nil {
				require.NoError(t, services.Add(test.service))
			}
			r := resolver{services: corelisters.NewServiceLister(services), slices: test.slices, byEndpoint: test.byEndpoint}
			got, problem := r.resolve(apiregistrationv1.ServiceReference{Namespace: "ns", Name: "third", Port: ptr.To[int32](443)})
			assert.Empty(t, cmp.Diff(test.want, got), "addresses")
			if (problem == nil) != (test.reason == "") || (problem != nil && problem.Reason != test.reason) {
				t.Errorf("problem is %+v, want %q", problem, test.reason)
			}
		})
	}
}
