// Copyright The Tripod Authors.
// SPDX-License-Identifier: Apache-2.0

package server

import (
	"context"
	"fmt"
	"time"

	"k8s.io/component-base/metrics/legacyregistry"
	apiregistrationv1 "k8s.io/kube-aggregator/pkg/apis/apiregistration/v1"
	"k8s.io/kube-aggregator/pkg/client/clientset_generated/clientset"
	apiregistrationclient "k8s.io/kube-aggregator/pkg/client/clientset_generated/clientset/typed/apiregistration/v1"
	aggregatorinformers "k8s.io/kube-aggregator/pkg/client/informers/externalversions"
	apiserviceinformers "k8s.io/kube-aggregator/pkg/client/informers/externalversions/apiregistration/v1"
	"k8s.io/kube-aggregator/pkg/controllers/autoregister"
	apiservicerest "k8s.io/kube-aggregator/pkg/registry/apiservice/rest"

	"github.com/tripod-k8s/tripod/services/aggregator/apis/apiservices"
	"github.com/tripod-k8s/tripod/services/aggregator/options"
)

// resyncInterval is how often every APIService is looked at again without a change.
const resyncInterval = 5 * time.Minute

// registered are the APIServices, which the aggregator serves, as it reads and writes them itself.
type registered struct {
	client    clientset.Interface
	informers aggregatorinformers.SharedInformerFactory
	services  apiserviceinformers.APIServiceInformer
	// registrar registers the group-versions of the backends.
	registrar *apiservices.Registrar
}

func (c *Config) newRegistered() error {
	client, err := clientset.NewForConfig(c.generic.LoopbackClientConfig)
	if err != nil {
		return err
	}
	factory := aggregatorinformers.NewSharedInformerFactory(client, resyncInterval)
	services := factory.Apiregistration().V1().APIServices()
	registrar, err := apiservices.NewRegistrar(apiservices.RegistrarConfig{
		Backends:    c.table.Backends(),
		Groups:      c.groups(),
		ServiceForm: options.APIServiceForm(c.options.APIServiceForm) == options.FormService,
		Services:    services,
		Client:      client.ApiregistrationV1(),
		Register: func(client apiregistrationclient.APIServicesGetter) apiservices.AutoRegistration {
			return autoregister.NewAutoRegisterController(services, client)
		},
	})
	c.registered = &registered{client: client, informers: factory, services: services, registrar: registrar}
	return err
}

// served are the served versions of the aggregator's own group.
var served = []string{apiregistrationv1.SchemeGroupVersion.Version}

// installStorage serves APIServices.
func (s *Server) installStorage() error {
	group := apiservicerest.NewRESTStorage(s.generic.MergedResourceConfig, s.generic.RESTOptionsGetter, false)
	if err := s.api.InstallAPIGroup(&group); err != nil {
		return err
	}
	if _, enabled := group.VersionedResourcesStorageMap[apiregistrationv1.SchemeGroupVersion.Version]; !enabled {
		return fmt.Errorf("--runtime-config: %s cannot be disabled", apiregistrationv1.SchemeGroupVersion)
	}
	return nil
}

// installRegistration registers the APIServices of the backends' group-versions.
func (s *Server) installRegistration() error {
	s.run("kube-apiserver-autoregistration", func(ctx context.Context) {
		go s.registered.registrar.Run(ctx.Done())
	})
	if err := s.registered.registrar.RegisterMetrics(legacyregistry.CustomRegister); err != nil {
		return err
	}
	check, err := s.registered.registrar.ReadyzCheck(s.registered.services.Informer())
	if err != nil {
		return err
	}
	return s.api.AddBootSequenceHealthChecks(check)
}
