// Copyright The Tripod Authors.
// SPDX-License-Identifier: Apache-2.0

package server

import (
	"context"
	"errors"

	"k8s.io/apimachinery/pkg/runtime"
	registryrest "k8s.io/apiserver/pkg/registry/rest"
	genericapiserver "k8s.io/apiserver/pkg/server"

	"github.com/tripod-k8s/tripod/apiservice"
	"github.com/tripod-k8s/tripod/services/list"
	"github.com/tripod-k8s/tripod/services/search/apis/search/openapi"
	"github.com/tripod-k8s/tripod/services/search/apis/search/v1beta1"
	"github.com/tripod-k8s/tripod/services/search/options"
)

// Name is the name of the service.
const Name = list.Search

// Service returns the service. Its life, in order: flags, prepare, configure, requests and beside them run, close.
func Service() apiservice.Service {
	s := &server{options: options.New()}
	return apiservice.Service{
		Name:          Name,
		Description:   "tripod-search serves the objects of many clusters, which it copies into a database, behind Tripod's aggregator.",
		AddToScheme:   []func(*runtime.Scheme) error{v1beta1.AddToScheme},
		Definitions:   openapi.GetOpenAPIDefinitions,
		AddFlags:      s.options.AddFlags,
		ValidateFlags: s.options.Validate,
		Prepare:       s.prepare,
		Close:         s.close,
		Groups: []apiservice.Group{{
			Name: v1beta1.GroupVersion.Group, Versions: []string{v1beta1.GroupVersion.Version},
			Resources: []apiservice.Resource{
				apiservice.Custom{
					Name: "collectionresources", Example: &v1beta1.CollectionResource{},
					New: func(*apiservice.Environment) (registryrest.Storage, error) { return Collections{}, nil },
				},
				apiservice.Custom{
					Name: "resources", Example: &v1beta1.Resources{},
					New: func(*apiservice.Environment) (registryrest.Storage, error) { return Resources{}, nil },
				},
			},
		}},
		Configure:     s.configure,
		KeepDecisions: aboutClusters,
		ReadyChecks:   []apiservice.ReadyCheck{{Name: "database", Check: s.checkDatabase}},
		Hooks:         []apiservice.Hook{{Name: "copy-clusters", Run: s.run}},
	}
}

// configure has the service answer requests inside of other requests.
func (s *server) configure(config *genericapiserver.Config, _ *apiservice.Environment) {
	configureNested(config, s.rights, s.handler.before)
	s.authorizer = config.Authorization.Authorizer
}

func (s *server) checkDatabase(ctx context.Context, _ *apiservice.Environment) error {
	if !s.migrated.Load() {
		return errors.New("the database does not have its schema yet")
	}
	return s.store.Ping(ctx)
}
