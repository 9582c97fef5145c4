// Copyright The Tripod Authors.
// SPDX-License-Identifier: Apache-2.0

package loopback

import (
	"net"
	"net/url"
	"strconv"

	"k8s.io/apiserver/pkg/util/proxy"
	"k8s.io/apiserver/pkg/util/webhook"
	"k8s.io/client-go/informers"
	corelisters "k8s.io/client-go/listers/core/v1"
)

// serviceResolver finds the address of a webhook, by the Services of core. It leaves the kubernetes Service as it is, because the transport
// of its webhooks goes to the aggregator and ignores the address.
type serviceResolver struct {
	services corelisters.ServiceLister
	// endpoints is nil if webhooks are reached by cluster IP.
	endpoints proxy.EndpointSliceGetter
}

// NewServiceResolver returns where webhooks at Services are reached: at an endpoint with endpointRouting, and else at the cluster IP.
func NewServiceResolver(factory informers.SharedInformerFactory, endpointRouting bool) (webhook.ServiceResolver, error) {
	resolver := &serviceResolver{services: factory.Core().V1().Services().Lister()}
	if endpointRouting {
		endpoints, err := proxy.NewEndpointSliceIndexerGetter(factory.Discovery().V1().EndpointSlices())
		if err != nil {
			return nil, err
		}
		resolver.endpoints = endpoints
	}
	return resolver, nil
}

// ResolveEndpoint implements webhook.ServiceResolver.
func (r *serviceResolver) ResolveEndpoint(namespace, name string, port int32) (*url.URL, error) {
	if IsKubernetes(namespace, name, port) {
		return &url.URL{Scheme: "https", Host: net.JoinHostPort(name+"."+namespace+".svc", strconv.Itoa(int(port)))}, nil
	}
	if r.endpoints != nil {
		return proxy.ResolveEndpoint(r.services, r.endpoints, namespace, name, port)
	}
	return proxy.ResolveCluster(r.services, namespace, name, port)
}
