// Copyright The Tripod Authors.
// SPDX-License-Identifier: Apache-2.0

package server

import (
	"context"
	"slices"

	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	apiextensionsapiserver "k8s.io/apiextensions-apiserver/pkg/apiserver"
	apiextensionsoptions "k8s.io/apiextensions-apiserver/pkg/cmd/server/options"
	generatedopenapi "k8s.io/apiextensions-apiserver/pkg/generated/openapi"
	"k8s.io/apimachinery/pkg/runtime/schema"
	registry "k8s.io/apiserver/pkg/registry/generic"
	genericapiserver "k8s.io/apiserver/pkg/server"
	"k8s.io/client-go/rest"

	"github.com/tripod-k8s/tripod/base/backend"
	"github.com/tripod-k8s/tripod/base/hop/addresses"
	"github.com/tripod-k8s/tripod/base/service"
	"github.com/tripod-k8s/tripod/base/storage/etcdclient"
	"github.com/tripod-k8s/tripod/base/storage/placement"
	"github.com/tripod-k8s/tripod/services/extensions/options"
	"github.com/tripod-k8s/tripod/services/extensions/storages"
)

// Config is what extensions is built from.
type Config struct {
	options *options.Completed
	backend *backend.Config
	// apiextensions is what the CRD server is built from.
	apiextensions *apiextensionsapiserver.Config
	// groups say where custom resources are, and stored how.
	groups *placement.Groups
	stored registry.RESTOptionsGetter
}

// NewConfig builds the configuration that kube-apiserver builds for its CRD server.
func NewConfig(ctx context.Context, o *options.Completed) (*Config, error) {
	config, err := backend.NewConfig(ctx, &o.Options.Options, o.Neighbours, backend.Settings{
		API: service.API{
			Resources:   apiextensionsapiserver.DefaultAPIResourceConfigSource(),
			Scheme:      apiextensionsapiserver.Scheme,
			Definitions: generatedopenapi.GetOpenAPIDefinitions,
			Documented:  apiextensionsapiserver.Scheme,
		},
		Codecs: service.Codecs(apiextensionsapiserver.Scheme),
		Serves: func(gv schema.GroupVersion) bool {
			return o.OwnPartition.IsDefault() && gv == apiextensionsv1.SchemeGroupVersion
		},
		Access: func(config *genericapiserver.Config, core *rest.Config) error {
			return applyAccess(ctx, o, config, core)
		},
		Admission:    o.Admission,
		Initializers: admissionInitializers,
	})
	if err != nil {
		return nil, err
	}
	generic := config.Generic
	applyPartition(o, config)
	groups := &placement.Groups{
		Clients: &etcdclient.Clients{}, Shared: o.Etcd.StorageConfig, Own: o.GroupEtcds.Of, Name: o.Name,
	}
	own := o.OwnPartition
	named := slices.DeleteFunc(slices.Clone(own.Table[own.Name]), addresses.IsPattern)
	if err := groups.Check(ctx, own.HasGroup, named...); err != nil {
		config.Close()
		return nil, err
	}
	stored := apiextensionsoptions.NewCRDRESTOptionsGetter(*o.Etcd, generic.ResourceTransformers, generic.StorageObjectCountTracker)
	return &Config{
		options: o, backend: config, groups: groups, stored: stored,
		apiextensions: &apiextensionsapiserver.Config{
			GenericConfig: generic,
			ExtraConfig: apiextensionsapiserver.ExtraConfig{
				CRDRESTOptionsGetter: storages.Getter(stored, groups, o.Etcd.EnableWatchCache),
				// With more than one server, a CustomResourceDefinition would become Established seconds later.
				MasterCount:         1,
				ServiceResolver:     config.Services,
				AuthResolverWrapper: config.WebhookClients,
			},
		},
	}, nil
}
