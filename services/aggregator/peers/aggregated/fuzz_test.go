// Copyright The Tripod Authors.
// SPDX-License-Identifier: Apache-2.0

package aggregated

import (
	"encoding/json"
	"net"
	"testing"

	"github.com/stretchr/testify/require"

	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	utilproxy "k8s.io/apiserver/pkg/util/proxy"
	corelisters "k8s.io/client-go/listers/core/v1"
	"k8s.io/client-go/tools/cache"
	apiregistrationv1 "k8s.io/kube-aggregator/pkg/apis/apiregistration/v1"
	"k8s.io/utils/ptr"
)

// FuzzResolve resolves any Services and EndpointSlices that users may write. The endpoint that kube-aggregator takes must be among the addresses.
func FuzzResolve(f *testing.F) {
	seed := func(s *corev1.Service, all ...*discoveryv1.EndpointSlice) {
		spec, err := json.Marshal(s.Spec)
		if err != nil {
			f.Fatal(err)
		}
		slices, err := json.Marshal(all)
		if err != nil {
			f.Fatal(err)
		}
		f.Add(spec, slices, int32(443))
	}
	yes, https := ptr.To(true), ptr.To("https")
	seed(service(nil), slice(ipv4, https, 8443, at("10.1.0.1", yes), at("10.1.0.2", nil)))
	seed(service(func(s *corev1.ServiceSpec) { s.ClusterIP = "None" }), slice(ipv6, https, 1, at("2001:db8::1", yes)), slice(ipv4, nil, 2, at("", yes)))
	seed(service(func(s *corev1.ServiceSpec) { s.Type, s.ExternalName = corev1.ServiceTypeExternalName, "a b" }))
	f.Fuzz(func(t *testing.T, spec, endpoints []byte, port int32) {
		s := service(nil)
		var all fixed
		if json.Unmarshal(spec, &s.Spec) != nil || json.Unmarshal(endpoints, &all) != nil {
			return
		}
		for _, slice := range all {
			if slice == nil {
				return // the API server does not store it
			}
		}
		indexer := cache.NewIndexer(cache.MetaNamespaceKeyFunc, cache.Indexers{})
		require.NoError(t, indexer.Add(s))
		services := corelisters.NewServiceLister(indexer)
		ref := apiregistrationv1.ServiceReference{Namespace: s.Namespace, Name: s.Name, Port: &port}
		for _, byEndpoint := range []bool{true, false} {
			addresses, problem := (&resolver{services: services, slices: all, byEndpoint: byEndpoint}).resolve(ref)
			require.NotEqual(t, problem == nil, len(addresses) == 0)
			if problem != nil || !byEndpoint {
				continue
			}
			// kube-aggregator takes any of them.
			location, err := utilproxy.ResolveEndpoint(services, all, ref.Namespace, ref.Name, port)
			require.NoError(t, err)
			require.Contains(t, addresses, location.Host)
			for _, address := range addresses {
				_, _, err := net.SplitHostPort(address)
				require.NoError(t, err)
			}
		}
	})
}
