// Copyright The Tripod Authors.
// SPDX-License-Identifier: Apache-2.0

package server

import (
	"context"
	"fmt"
	"slices"

	"k8s.io/apiserver/pkg/warning"

	"github.com/tripod-k8s/tripod/services/search/query"
)

// maxUnknown bounds the warnings about names in a request.
const maxUnknown = 10

// warnParameters names the parameters of a request that mean nothing. As in Kubernetes, they are no error: clients add such as keep caches
// away.
func warnParameters(ctx context.Context, q *query.Query) {
	for _, name := range q.Unknown[:min(len(q.Unknown), maxUnknown)] {
		warning.AddWarning(ctx, "", fmt.Sprintf("parameter %.64q is unknown, and changes nothing", name))
	}
}

// warnClusters names the clusters of a request in which the reader sees nothing. For a reader, one that does not exist looks the same.
func (h *Handler) warnClusters(ctx context.Context, q *query.Query) error {
	if q.SameClusters || len(q.Clusters.In) == 0 {
		return nil
	}
	names, _, err := h.readableClusters(ctx)
	if err != nil {
		return err
	}
	unseen := slices.DeleteFunc(slices.Clone(q.Clusters.In), func(name string) bool { return slices.Contains(names, name) })
	for _, name := range unseen[:min(len(unseen), maxUnknown)] {
		warning.AddWarning(ctx, "", fmt.Sprintf("cluster %.64q is not searched, or shows you nothing: see the names of clusters at %sclusters",
			name, resourcesPrefix))
	}
	return nil
}

// warnBehind says that a search may lack what a new right shows, unless it names its clusters: then it has waited for their rights. It
// names no cluster.
func warnBehind(ctx context.Context, q *query.Query, behind bool) {
	if behind && len(q.Clusters.In) == 0 {
		warning.AddWarning(ctx, "", "search has not read yet what has changed in the RBAC of some clusters, so objects may be missing that "+
			"new rights show: name clusters, or try again later")
	}
}
