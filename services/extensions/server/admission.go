// Copyright The Tripod Authors.
// SPDX-License-Identifier: Apache-2.0

package server

import (
	"fmt"
	"net/url"

	"k8s.io/apiserver/pkg/admission"
	"k8s.io/apiserver/pkg/admission/initializer"
	webhookinitializer "k8s.io/apiserver/pkg/admission/plugin/webhook/initializer"
	"k8s.io/apiserver/pkg/quota/v1/generic"
	genericapiserver "k8s.io/apiserver/pkg/server"
	utilfeature "k8s.io/apiserver/pkg/util/feature"
	"k8s.io/apiserver/pkg/util/proxy"
	"k8s.io/apiserver/pkg/util/webhook"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/informers"
	"k8s.io/client-go/kubernetes"
	corelisters "k8s.io/client-go/listers/core/v1"
	"k8s.io/client-go/rest"
	kubeapiserveradmission "k8s.io/kubernetes/pkg/kubeapiserver/admission"

	"github.com/tripod-k8s/tripod/internal/hop/link"
	"github.com/tripod-k8s/tripod/services/extensions/options"
)

// applyAdmission sets up the admission plugins that concern custom resources. Policies may take parameters of any
// kind, so their clients see the API of core and of this server as one.
func applyAdmission(
	o *options.Completed,
	config *genericapiserver.RecommendedConfig,
	whole *rest.Config,
	services webhook.ServiceResolver,
	webhookClients webhook.AuthenticationInfoResolverWrapper,
	core *link.Link,
) error {
	clientset, err := kubernetes.NewForConfig(whole)
	if err != nil {
		return fmt.Errorf("clients for admission: %w", err)
	}
	dynamicClient, err := dynamic.NewForConfig(whole)
	if err != nil {
		return fmt.Errorf("clients for admission: %w", err)
	}
	o.Admission.Decorators = append(o.Admission.Decorators, withRetry(core))
	return o.Admission.ApplyTo(
		&config.Config,
		config.SharedInformerFactory,
		clientset,
		dynamicClient,
		utilfeature.DefaultFeatureGate,
		config.EffectiveVersion,
		webhookinitializer.NewPluginInitializer(webhookClients, services),
		countQuota{},
		kubeapiserveradmission.NewPluginInitializer(), // for configuration by manifests
	)
}

// countQuota configures the ResourceQuota plugin for objects that are only counted: count/<plural>.<group>.
type countQuota struct{}

// Initialize implements admission.PluginInitializer.
func (countQuota) Initialize(plugin admission.Interface) {
	if wants, ok := plugin.(initializer.WantsQuotaConfiguration); ok {
		wants.SetQuotaConfiguration(generic.NewConfiguration(nil, nil))
	}
}

// serviceResolver finds the address of a webhook, by the Services of core.
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
	if r.endpoints != nil {
		return proxy.ResolveEndpoint(r.services, r.endpoints, namespace, name, port)
	}
	return proxy.ResolveCluster(r.services, namespace, name, port)
}
