// Copyright The Tripod Authors.
// SPDX-License-Identifier: Apache-2.0

package server

import (
	"context"
	"errors"
	"net/http"

	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apiserver/pkg/authorization/authorizer"
	registryrest "k8s.io/apiserver/pkg/registry/rest"

	"github.com/tripod-k8s/tripod/apiservice"
	"github.com/tripod-k8s/tripod/services/list"
	"github.com/tripod-k8s/tripod/services/search/apis/search/openapi"
	"github.com/tripod-k8s/tripod/services/search/apis/search/v1beta1"
	"github.com/tripod-k8s/tripod/services/search/options"
)

// Name is the name of the service.
const Name = list.Search

// Service returns the service. Its life, in order: flags, prepare, requests and copyClusters, close.
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
		Requests: &apiservice.Requests{
			Info:   RequestInfo,
			Around: WithNotes,
			Authorizer: func(next authorizer.Authorizer) authorizer.Authorizer {
				return NewAuthorizer(next, s.rights)
			},
			KeepDecisions: aboutClusters,
			Handler:       func(_ *apiservice.Environment, next http.Handler) http.Handler { return s.handler.before(next) },
		},
		ReadyChecks: []apiservice.ReadyCheck{{Name: "database", Check: s.checkDatabase}},
		Hooks:       []apiservice.Hook{{Name: "copy-clusters", Run: s.run}},
	}
}

func (s *server) checkDatabase(ctx context.Context, _ *apiservice.Environment) error {
	if !s.migrated.Load() {
		return errors.New("the database does not have its schema yet")
	}
	return s.store.Ping(ctx)
}
