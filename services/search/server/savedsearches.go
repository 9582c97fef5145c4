// Copyright The Tripod Authors.
// SPDX-License-Identifier: Apache-2.0

package server

import (
	"context"
	"maps"
	"net/url"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apiserver/pkg/authentication/user"
	"k8s.io/apiserver/pkg/authorization/authorizer"
	"k8s.io/apiserver/pkg/endpoints/request"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/rest"
	"k8s.io/component-base/metrics/legacyregistry"

	"github.com/tripod-k8s/tripod/services/search/apis/search/v1beta1"
	"github.com/tripod-k8s/tripod/services/search/query"
	"github.com/tripod-k8s/tripod/services/search/savedsearches"
)

// newSaved returns what counts the SavedSearches of a cluster.
func newSaved(s *server, cluster *rest.Config) (*savedsearches.Searches, error) {
	client, err := dynamic.NewForConfig(cluster)
	if err != nil {
		return nil, err
	}
	searches := savedsearches.New(client, func(ctx context.Context, name string, groups []string, parameters url.Values) (int64, error) {
		return s.handler.count(ctx, s.authorizer, &user.DefaultInfo{Name: name, Groups: groups}, parameters)
	})
	legacyregistry.CustomMustRegister(searches.Collector())
	return searches, nil
}

// ofPages are parameters that say how a list is shown, and nothing about what is in it.
var ofPages = []string{
	"limit", "size", "orderby", "continue", "offset", "withContinue", "withRemainingCount", "withStaleness", "onlyMetadata", "groupBy",
}

// count returns the number of objects that a user may list and that parameters of the collection "any" find. It authorizes the user as the
// sender of a request, and so the answer is that of the user's own request.
func (h *Handler) count(ctx context.Context, by authorizer.Authorizer, reader user.Info, parameters url.Values) (int64, error) {
	values := maps.Clone(parameters)
	for _, name := range ofPages {
		values.Del(name)
	}
	values.Set("groupBy", "cluster")
	values.Set("limit", "1")
	q, err := query.Parse(values, "groups", "resources")
	if err != nil {
		return 0, apierrors.NewBadRequest(err.Error())
	}
	if len(q.Unknown) > 0 {
		return 0, apierrors.NewBadRequest("parameter " + q.Unknown[0] + " is unknown")
	}
	patterns, err := patternsOf(values)
	if err != nil {
		return 0, apierrors.NewBadRequest(err.Error())
	}
	ctx = request.WithUser(withRequestState(ctx), reader)
	decision, _, err := by.Authorize(ctx, authorizer.AttributesRecord{
		User: reader, Verb: "get", APIGroup: v1beta1.GroupVersion.Group, APIVersion: v1beta1.GroupVersion.Version,
		Resource: "collectionresources", Name: anyCollection, ResourceRequest: true, Path: collectionsPrefix + anyCollection,
	})
	switch {
	case err != nil:
		return 0, asStatus(ctx, err)
	case decision != authorizer.DecisionAllow:
		return 0, savedsearches.ErrForbidden
	}
	found, _, err := h.counted(ctx, patterns, q)
	if err != nil {
		return 0, err
	}
	return found.Objects, nil
}
