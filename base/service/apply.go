// Copyright The Tripod Authors.
// SPDX-License-Identifier: Apache-2.0

package service

import (
	"fmt"

	"k8s.io/apimachinery/pkg/runtime"
	genericapiserver "k8s.io/apiserver/pkg/server"
	genericoptions "k8s.io/apiserver/pkg/server/options"
	serverstorage "k8s.io/apiserver/pkg/server/storage"
	utilfeature "k8s.io/apiserver/pkg/util/feature"
	"k8s.io/client-go/kubernetes"
	metricsfeatures "k8s.io/component-base/metrics/features"
	openapicommon "k8s.io/kube-openapi/pkg/common"

	"github.com/tripod-k8s/tripod/base/admission/loopback"
	"github.com/tripod-k8s/tripod/base/service/auditlog"
	"github.com/tripod-k8s/tripod/base/service/settings"
	"github.com/tripod-k8s/tripod/base/storage/etcdclient"
	"github.com/tripod-k8s/tripod/base/storage/watchresume"
)

// API is what a service serves.
type API struct {
	// Resources are the defaults of what is served. Flags turn resources of Scheme on and off.
	Resources *serverstorage.ResourceConfig
	Scheme    *runtime.Scheme
	// Definitions are its schemas in OpenAPI.
	Definitions openapicommon.GetOpenAPIDefinitions
	// Documented has kinds of Definitions that client-go does not have. It may be nil.
	Documented *runtime.Scheme
}

// ApplyTo configures a server as kube-apiserver configures its own. core is a client of core, whose informers are in config. Core itself is
// configured by kube-apiserver's code, and needs only ApplyTripodTo.
func (o *Options) ApplyTo(config *genericapiserver.RecommendedConfig, core kubernetes.Interface, api API) error {
	metricsfeatures.ApplyFeatureGates(utilfeature.DefaultFeatureGate)
	o.Metrics.Apply()
	generic := &config.Config
	enablement := genericoptions.APIEnablementOptions{RuntimeConfig: settings.RenameCoreGroup(o.APIEnablement.RuntimeConfig)}
	for _, apply := range []func() error{
		func() error { return o.ServerRun.ApplyTo(generic) },
		func() error { return o.SecureServing.ApplyToConfig(generic) },
		func() error { return o.nameReplica(generic) }, // before the collector of traces gets the name
		func() error { return o.Features.ApplyTo(generic, core, config.SharedInformerFactory) },
		func() error { return o.EgressSelector.ApplyTo(generic) },
		func() error { return o.Traces.ApplyTo(generic.EgressSelector, generic) },
		func() error { return o.Audit.ApplyTo(generic) },
		func() error { return enablement.ApplyTo(generic, api.Resources, api.Scheme) },
		func() error { return o.applyEtcd(generic) },
		func() error { return o.ApplyTripodTo(generic) },
	} {
		if err := apply(); err != nil {
			return err
		}
	}
	generic.LoopbackClientConfig.UserAgent = loopback.UserAgent()
	generic.LongRunningFunc = LongRunning
	var documented []*runtime.Scheme
	if api.Documented != nil {
		documented = append(documented, api.Documented)
	}
	ApplyDocuments(generic, api.Definitions, documented...)
	return nil
}

func (o *Options) applyEtcd(config *genericapiserver.Config) error {
	if o.Etcd == nil {
		return nil
	}
	transport := &o.Etcd.StorageConfig.Transport
	if config.EgressSelector != nil {
		transport.EgressLookup = config.EgressSelector.Lookup
	}
	transport.TracerProvider = config.TracerProvider
	return o.Etcd.ApplyTo(config)
}

// ApplyTripodTo applies what kube-apiserver does not have to a configuration made from kube-apiserver's options.
func (o *Options) ApplyTripodTo(config *genericapiserver.Config) error {
	config.Flagz = o.Flagz
	if err := etcdclient.ApplyMonitors(config); err != nil {
		return err
	}
	if err := watchresume.Apply(config, o.Etcd); err != nil {
		return err
	}
	auditlog.Apply(config, o.AuditSocket, o.Audit)
	return o.nameReplica(config)
}

// nameReplica gives the server an identity of its own. Without a name, the server keeps the identity in config.
func (o *Options) nameReplica(config *genericapiserver.Config) error {
	if o.Replica == "" {
		return nil
	}
	id, err := NewReplicaID(o.Name, o.Replica)
	if err != nil {
		return fmt.Errorf("name this replica: %w", err)
	}
	config.APIServerID = id
	return nil
}
