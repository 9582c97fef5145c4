// Copyright The Tripod Authors.
// SPDX-License-Identifier: Apache-2.0

package server

import (
	"context"
	"fmt"
	"time"

	apiextensionsapiserver "k8s.io/apiextensions-apiserver/pkg/apiserver"
	apiextensionsoptions "k8s.io/apiextensions-apiserver/pkg/cmd/server/options"
	generatedopenapi "k8s.io/apiextensions-apiserver/pkg/generated/openapi"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/runtime"
	genericapiserver "k8s.io/apiserver/pkg/server"
	"k8s.io/apiserver/pkg/util/webhook"
	"k8s.io/client-go/informers"
	"k8s.io/client-go/kubernetes"

	"github.com/tripod-k8s/tripod/internal/admission/loopback"
	"github.com/tripod-k8s/tripod/internal/hop/feed"
	"github.com/tripod-k8s/tripod/internal/hop/link"
	"github.com/tripod-k8s/tripod/internal/service"
	"github.com/tripod-k8s/tripod/services/extensions/options"
	"github.com/tripod-k8s/tripod/services/extensions/storages"
)

// resync is how often informers on core pass all objects to their handlers again, as in kube-apiserver.
const resync = 10 * time.Minute

// Config is what extensions is built from.
type Config struct {
	options *options.Completed
	generic *genericapiserver.RecommendedConfig
	// others are the other services.
	others    *links
	informers *service.Informers
	// inFlight counts requests.
	inFlight *feed.Counter
	// apiextensions is what the CRD server is built from. generic is a part of it.
	apiextensions *apiextensionsapiserver.Config
}

// NewConfig builds the configuration that kube-apiserver builds for its CRD server. kube-apiserver takes namespaces, Services, webhooks,
// policies, flow schemas and authorization from the same process; here they come from core.
func NewConfig(ctx context.Context, o *options.Completed) (*Config, error) {
	c := &Config{
		options:  o,
		generic:  genericapiserver.NewRecommendedConfig(apiextensionsapiserver.Codecs),
		others:   newLinks(ctx, o),
		inFlight: &feed.Counter{},
	}
	if err := c.applyOptions(); err != nil {
		return nil, err
	}
	if err := applyAccess(ctx, o, &c.generic.Config, c.others.core.Config(link.Fail)); err != nil {
		return nil, err
	}
	services, err := newServiceResolver(c.informers, o.EndpointRouting)
	if err != nil {
		return nil, err
	}
	kinds := loopback.NewKinds(o.Admission)
	whole, err := c.others.wholeConfig(&c.generic.Config, kinds)
	if err != nil {
		return nil, err
	}
	go kinds.Run(ctx)
	webhookClients := webhook.NewDefaultAuthenticationInfoResolverWrapper(nil, c.generic.EgressSelector, whole, c.generic.TracerProvider)
	if err := applyAdmission(o, c.generic, whole, services, webhookClients, c.others.core); err != nil {
		return nil, err
	}
	c.inFlight.ApplyTo(&c.generic.Config)
	c.apiextensions = &apiextensionsapiserver.Config{
		GenericConfig: c.generic,
		ExtraConfig: apiextensionsapiserver.ExtraConfig{
			CRDRESTOptionsGetter: storages.Getter(apiextensionsoptions.NewCRDRESTOptionsGetter(
				*o.Etcd, c.generic.ResourceTransformers, c.generic.StorageObjectCountTracker), o.Etcd.EnableWatchCache),
			// With more than one server, a CustomResourceDefinition would become Established seconds later.
			MasterCount:         1,
			ServiceResolver:     services,
			AuthResolverWrapper: webhookClients,
		},
	}
	return c, nil
}

func (c *Config) applyOptions() error {
	client, err := kubernetes.NewForConfig(c.others.core.Config(link.Wait))
	if err != nil {
		return fmt.Errorf("client for core: %w", err)
	}
	c.informers = service.NewInformers(
		informers.NewSharedInformerFactoryWithOptions(client, resync, informers.WithTransform(dropManagedFields)))
	c.generic.SharedInformerFactory = c.informers
	// core on the same host has kube-apiserver's identity, so extensions needs another one.
	if c.generic.APIServerID, err = service.NewReplicaID(c.options.Name, c.options.Replica); err != nil {
		return err
	}
	if err := c.options.ApplyTo(c.generic, client, service.API{
		Resources:   apiextensionsapiserver.DefaultAPIResourceConfigSource(),
		Scheme:      apiextensionsapiserver.Scheme,
		Definitions: generatedopenapi.GetOpenAPIDefinitions,
	}); err != nil {
		return err
	}
	c.generic.LoopbackClientConfig.ContentType = runtime.ContentTypeProtobuf
	c.generic.LoopbackClientConfig.DisableCompression = true
	return nil
}

func dropManagedFields(object any) (any, error) {
	if accessor, err := meta.Accessor(object); err == nil {
		accessor.SetManagedFields(nil)
	}
	return object, nil
}
