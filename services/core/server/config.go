// Copyright The Tripod Authors.
// SPDX-License-Identifier: Apache-2.0

package server

import (
	"context"
	"fmt"
	"net"
	"strconv"
	"time"

	apiextensionsapiserver "k8s.io/apiextensions-apiserver/pkg/apiserver"
	"k8s.io/apimachinery/pkg/runtime"
	authorizerunion "k8s.io/apiserver/pkg/authorization/union"
	genericapiserver "k8s.io/apiserver/pkg/server"
	utilfeature "k8s.io/apiserver/pkg/util/feature"
	aggregatorscheme "k8s.io/kube-aggregator/pkg/apiserver/scheme"
	"k8s.io/kubernetes/cmd/kube-apiserver/app"
	"k8s.io/kubernetes/pkg/api/legacyscheme"
	"k8s.io/kubernetes/pkg/controlplane"
	controlplaneapiserver "k8s.io/kubernetes/pkg/controlplane/apiserver"
	generatedopenapi "k8s.io/kubernetes/pkg/generated/openapi"

	"github.com/tripod-k8s/tripod/internal/admission/loopback"
	"github.com/tripod-k8s/tripod/internal/service"
	"github.com/tripod-k8s/tripod/internal/service/auditlog"
	"github.com/tripod-k8s/tripod/internal/storage/etcdready"
	"github.com/tripod-k8s/tripod/internal/storage/watchresume"
	"github.com/tripod-k8s/tripod/services/core/identity"
	"github.com/tripod-k8s/tripod/services/core/options"
	"github.com/tripod-k8s/tripod/services/core/paramkinds"
)

// config is what core is built from.
type config struct {
	*controlplane.Config
	informers *service.Informers
	// dependencies are those of tokens.
	dependencies *identity.Dependencies
	// served is what the loopback clients find here.
	served *loopback.Served
	// webhookFreshness is how long aggregators may use answers of the authentication webhook. It is nil without one.
	webhookFreshness *time.Duration
}

// newConfig builds the configuration that kube-apiserver builds for its built-in groups, and puts Tripod's services in
// front of authentication and authorization. It waits for etcd.
func newConfig(ctx context.Context, o *options.Completed) (*config, error) {
	// Behind an egress proxy, etcd is waited for as kube-apiserver does it.
	if o.EgressSelector.ConfigFile == "" {
		if err := etcdready.Wait(ctx, o.Etcd.StorageConfig, o.SecureServing.SecureServingOptions); err != nil {
			return nil, err
		}
	}
	webhookFreshness, restore := shareWebhookCache(o.Kube.Authentication.WebHook)
	defer restore()
	// The schemes decide the group-version-kinds in OpenAPI documents; kube-apiserver has these three.
	schemes := []*runtime.Scheme{legacyscheme.Scheme, apiextensionsapiserver.Scheme, aggregatorscheme.Scheme}
	genericConfig, factory, storageFactory, err := controlplaneapiserver.BuildGenericConfig(
		o.Kube.CompletedOptions,
		schemes,
		controlplane.DefaultAPIResourceConfigSource(),
		generatedopenapi.GetOpenAPIDefinitions,
	)
	if err != nil {
		return nil, err
	}
	informers := service.NewInformers(factory)
	dependencies, err := identity.Follow(informers, o.Kube.Authentication.ServiceAccounts)
	if err != nil {
		return nil, err
	}
	if err := applyOwn(o, genericConfig); err != nil {
		return nil, err
	}
	// Last, because it waits a moment before it knows nothing.
	genericConfig.Authorization.Authorizer = authorizerunion.New(
		genericConfig.Authorization.Authorizer, paramkinds.New(informers, utilfeature.DefaultFeatureGate))
	served, err := applyLoopback(ctx, o, genericConfig)
	if err != nil {
		return nil, err
	}
	kubeConfig, _, _, err := app.CreateKubeAPIServerConfig(o.Kube, genericConfig, informers, storageFactory)
	if err != nil {
		return nil, err
	}
	return &config{Config: kubeConfig, informers: informers, dependencies: dependencies, served: served, webhookFreshness: webhookFreshness}, nil
}

// applyOwn applies the options that kube-apiserver does not have. Admission and the storage of reviews take
// authenticator, authorizer and identity from the configuration, so this must come before them.
func applyOwn(o *options.Completed, config *genericapiserver.Config) error {
	if err := o.ApplyTrust(config); err != nil {
		return err
	}
	config.Flagz = o.Flagz
	watchresume.Apply(config)
	auditlog.Apply(config, o.AuditSocket, o.Audit)
	if o.Replica != "" {
		id, err := service.NewReplicaID("core", o.Replica)
		if err != nil {
			return fmt.Errorf("name this replica: %w", err)
		}
		config.APIServerID = id
	}
	if o.AdvertisePort != 0 {
		if _, _, err := net.SplitHostPort(config.ExternalAddress); err != nil {
			config.ExternalAddress = net.JoinHostPort(config.ExternalAddress, strconv.Itoa(o.AdvertisePort))
		}
	}
	return nil
}
