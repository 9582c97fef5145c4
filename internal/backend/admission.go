// Copyright The Tripod Authors.
// SPDX-License-Identifier: Apache-2.0

package backend

import (
	"fmt"
	"net"
	"net/url"
	"strconv"

	"k8s.io/apiserver/pkg/admission"
	webhookinitializer "k8s.io/apiserver/pkg/admission/plugin/webhook/initializer"
	genericoptions "k8s.io/apiserver/pkg/server/options"
	utilfeature "k8s.io/apiserver/pkg/util/feature"
	"k8s.io/apiserver/pkg/util/proxy"
	"k8s.io/apiserver/pkg/util/webhook"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/informers"
	"k8s.io/client-go/kubernetes"
	corelisters "k8s.io/client-go/listers/core/v1"
	"k8s.io/client-go/rest"

	"github.com/tripod-k8s/tripod/internal/admission/ending"
	"github.com/tripod-k8s/tripod/internal/admission/loopback"
)

// applyAdmission sets up the admission plugins. Policies may take parameters of any kind, so their clients see the API of core and of this
// server as one.
func (c *Config) applyAdmission(o *genericoptions.AdmissionOptions, whole *rest.Config, initializers []admission.PluginInitializer) error {
	clientset, err := kubernetes.NewForConfig(whole)
	if err != nil {
		return fmt.Errorf("clients for admission: %w", err)
	}
	dynamicClient, err := dynamic.NewForConfig(whole)
	if err != nil {
		return fmt.Errorf("clients for admission: %w", err)
	}
	o.Decorators = ending.Decorators(append(o.Decorators, withRetry(c.others.core)))
	return o.ApplyTo(&c.Generic.Config, c.Generic.SharedInformerFactory, clientset, dynamicClient,
		utilfeature.DefaultFeatureGate, c.Generic.EffectiveVersion,
		append(initializers, webhookinitializer.NewPluginInitializer(c.WebhookClients, c.Services))...)
}

// serviceResolver finds the address of a webhook, by the Services of core. It leaves the kubernetes Service as it is, because the transport
// of its webhooks goes to the aggregator and ignores the address.
type serviceResolver struct {
	services corelisters.ServiceLister
	// endpoints is nil if webhooks are reached by cluster IP.
	endpoints proxy.EndpointSliceGetter
}

func newServiceResolver(factory informers.SharedInformerFactory, endpointRouting bool) (webhook.ServiceResolver, error) {
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
	if loopback.IsKubernetes(namespace, name, port) {
		return &url.URL{Scheme: "https", Host: net.JoinHostPort(name+"."+namespace+".svc", strconv.Itoa(int(port)))}, nil
	}
	if r.endpoints != nil {
		return proxy.ResolveEndpoint(r.services, r.endpoints, namespace, name, port)
	}
	return proxy.ResolveCluster(r.services, namespace, name, port)
}
