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
	"k8s.io/apimachinery/pkg/util/sets"
	genericfeatures "k8s.io/apiserver/pkg/features"
	genericapiserver "k8s.io/apiserver/pkg/server"
	genericfilters "k8s.io/apiserver/pkg/server/filters"
	utilfeature "k8s.io/apiserver/pkg/util/feature"
	"k8s.io/apiserver/pkg/util/webhook"
	"k8s.io/client-go/informers"
	"k8s.io/client-go/kubernetes"
	metricsfeatures "k8s.io/component-base/metrics/features"

	"github.com/tripod-k8s/tripod/internal/admission/loopback"
	"github.com/tripod-k8s/tripod/internal/service"
	"github.com/tripod-k8s/tripod/internal/service/auditlog"
	"github.com/tripod-k8s/tripod/internal/storage/watchresume"
	"github.com/tripod-k8s/tripod/services/extensions/options"
	"github.com/tripod-k8s/tripod/services/extensions/storages"
)

// resync is how often informers on core hand all objects to their handlers again, as in kube-apiserver.
const resync = 10 * time.Minute

// newConfig builds the configuration that kube-apiserver builds for its CRD server. What that takes from the same
// process (namespaces, Services, webhooks, policies, flow schemas, authorization) comes from core.
func newConfig(ctx context.Context, o *options.Completed, others *links) (*apiextensionsapiserver.Config, error) {
	config := genericapiserver.NewRecommendedConfig(apiextensionsapiserver.Codecs)
	if err := applyServing(o, &config.Config); err != nil {
		return nil, err
	}
	core, err := kubernetes.NewForConfig(others.core.Config())
	if err != nil {
		return nil, fmt.Errorf("client for core: %w", err)
	}
	config.SharedInformerFactory = service.NewInformers(informers.NewSharedInformerFactoryWithOptions(core, resync, informers.WithTransform(dropManagedFields)))
	if err := o.Features.ApplyTo(&config.Config, core, config.SharedInformerFactory); err != nil {
		return nil, err
	}
	if err := applyStorage(o, &config.Config); err != nil {
		return nil, err
	}
	if err := applyAccess(ctx, o, &config.Config, others.asked.Config()); err != nil {
		return nil, err
	}
	if err := o.Audit.ApplyTo(&config.Config); err != nil {
		return nil, err
	}
	auditlog.Apply(&config.Config, o.AuditSocket, o.Audit)
	service.ApplyDocuments(&config.Config, generatedopenapi.GetOpenAPIDefinitions)

	services, err := newServiceResolver(config.SharedInformerFactory, o.EndpointRouting)
	if err != nil {
		return nil, err
	}
	kinds := loopback.NewKinds(o.Admission)
	whole, err := others.wholeConfig(&config.Config, kinds)
	if err != nil {
		return nil, err
	}
	go kinds.Run(ctx)
	webhookClients := webhook.NewDefaultAuthenticationInfoResolverWrapper(
		nil, config.EgressSelector, whole, config.TracerProvider)
	if err := applyAdmission(o, config, whole, services, webhookClients); err != nil {
		return nil, err
	}
	return &apiextensionsapiserver.Config{
		GenericConfig: config,
		ExtraConfig: apiextensionsapiserver.ExtraConfig{
			CRDRESTOptionsGetter: storages.Getter(apiextensionsoptions.NewCRDRESTOptionsGetter(
				*o.Etcd, config.ResourceTransformers, config.StorageObjectCountTracker), o.Etcd.EnableWatchCache),
			// With more than one, a CustomResourceDefinition would become Established seconds later.
			MasterCount:         1,
			ServiceResolver:     services,
			AuthResolverWrapper: webhookClients,
		},
	}, nil
}

func applyServing(o *options.Completed, config *genericapiserver.Config) error {
	config.Flagz = o.Flagz
	if err := o.ServerRun.ApplyTo(config); err != nil {
		return err
	}
	if err := o.SecureServing.ApplyToConfig(config); err != nil {
		return err
	}
	config.LoopbackClientConfig.ContentType = runtime.ContentTypeProtobuf
	config.LoopbackClientConfig.DisableCompression = true
	config.LoopbackClientConfig.UserAgent = loopback.UserAgent()
	id, err := service.NewReplicaID("extensions", o.Replica)
	if err != nil {
		return err
	}
	config.APIServerID = id
	config.LongRunningFunc = genericfilters.BasicLongRunningRequestCheck(
		sets.NewString("watch", "proxy"),
		sets.NewString("attach", "exec", "proxy", "log", "portforward"),
	)
	metricsfeatures.ApplyFeatureGates(utilfeature.DefaultFeatureGate)
	o.Metrics.Apply()
	if err := o.EgressSelector.ApplyTo(config); err != nil {
		return err
	}
	if utilfeature.DefaultFeatureGate.Enabled(genericfeatures.APIServerTracing) {
		return o.Traces.ApplyTo(config.EgressSelector, config)
	}
	return nil
}

func applyStorage(o *options.Completed, config *genericapiserver.Config) error {
	transport := &o.Etcd.StorageConfig.Transport
	if config.EgressSelector != nil {
		transport.EgressLookup = config.EgressSelector.Lookup
	}
	transport.TracerProvider = config.TracerProvider
	if err := o.Etcd.ApplyTo(config); err != nil {
		return err
	}
	watchresume.Apply(config)
	return o.APIEnablement.ApplyTo(config, apiextensionsapiserver.DefaultAPIResourceConfigSource(), apiextensionsapiserver.Scheme)
}

func dropManagedFields(object any) (any, error) {
	if accessor, err := meta.Accessor(object); err == nil {
		accessor.SetManagedFields(nil)
	}
	return object, nil
}
