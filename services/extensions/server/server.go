// Copyright The Tripod Authors.
// SPDX-License-Identifier: Apache-2.0

// Package server runs extensions: the CRD server of kube-apiserver as an API server of its own.
package server

import (
	"context"

	apiextensionsapiserver "k8s.io/apiextensions-apiserver/pkg/apiserver"
	"k8s.io/apiextensions-apiserver/pkg/client/clientset/clientset"
	genericapifilters "k8s.io/apiserver/pkg/endpoints/filters"
	genericapiserver "k8s.io/apiserver/pkg/server"
	"k8s.io/apiserver/pkg/util/notfoundhandler"
	"k8s.io/component-base/version"

	"github.com/tripod-k8s/tripod/base/backend"
	"github.com/tripod-k8s/tripod/base/migration"
	"github.com/tripod-k8s/tripod/base/service"
	"github.com/tripod-k8s/tripod/base/service/settings"
	"github.com/tripod-k8s/tripod/services/extensions/catalog"
	"github.com/tripod-k8s/tripod/services/extensions/definitions"
	"github.com/tripod-k8s/tripod/services/extensions/openapi"
	"github.com/tripod-k8s/tripod/services/extensions/takeback"
)

// Server is extensions before it serves.
type Server struct {
	backend *backend.Server
	// definitions are the CustomResourceDefinitions that the server follows.
	definitions *apiextensionsapiserver.CustomResourceDefinitions
	partition   definitions.Partition
	// name is that of the service, such as extensions-big.
	name string
}

// New builds the server.
func New(c *Config) (*Server, error) {
	s, err := newServer(c)
	if err != nil {
		c.backend.Close()
		return nil, err
	}
	return s, nil
}

func newServer(c *Config) (*Server, error) {
	// Paths without a handler are 404 only once all CustomResourceDefinitions are known, and 503 before.
	notFound := notfoundhandler.New(c.backend.Generic.Serializer, genericapifilters.NoMuxAndDiscoveryIncompleteKey)
	api, err := c.newDefinitions(genericapiserver.NewEmptyDelegateWithCustomHandler(notFound))
	if err != nil {
		return nil, err
	}
	if err := installRootDiscovery(api.GenericAPIServer); err != nil {
		return nil, err
	}
	if err := c.installTakeback(api.GenericAPIServer); err != nil {
		return nil, err
	}
	modes, err := c.options.Authorization.ModesInForce()
	if err != nil {
		return nil, err
	}
	own, err := c.options.ReadSettings(settings.Access{Modes: modes}, c.options.Admission)
	if err != nil {
		return nil, err
	}
	own.SetPartitions(c.options.OwnPartition.Table.String())
	server, err := c.backend.NewServer(api.GenericAPIServer, own)
	if err != nil {
		return nil, err
	}
	return &Server{backend: server, definitions: api, partition: c.options.OwnPartition, name: c.options.Name}, nil
}

// installTakeback serves the paths by which objects come back from an API service.
func (c *Config) installTakeback(api *genericapiserver.GenericAPIServer) error {
	own, err := clientset.NewForConfig(api.LoopbackClientConfig)
	if err != nil {
		return err
	}
	server := &takeback.Server{
		Groups: c.groups, Options: c.stored, Definitions: own, Codecs: c.backend.Generic.Serializer,
		MaxBytes: c.backend.Generic.MaxRequestBodyBytes,
	}
	api.Handler.NonGoRestfulMux.UnlistedHandlePrefix(migration.Root+"/", server.Handler())
	return nil
}

// Run implements service.Server.
func (s *Server) Run(ctx context.Context, ports *service.Ports) error {
	return s.backend.Run(ctx, ports, func(publisher backend.Publisher) error {
		followed := s.definitions.Informers.Apiextensions().V1().CustomResourceDefinitions()
		api := s.definitions.GenericAPIServer
		if !s.partition.IsDefault() {
			nameStatus(api, s.name)
		}
		api.OpenAPIVersionedService.UpdateSpecLazy(openapi.New(api.StaticOpenAPISpec, followed.Lister()))
		// Without it, apiextensions-apiserver does not start the controller that package openapi replaces.
		api.OpenAPIVersionedService = nil
		return catalog.Follow(followed.Informer(), version.Get().GitVersion, s.partition.IsDefault(), publisher)
	})
}
