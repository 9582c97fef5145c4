// Copyright The Tripod Authors.
// SPDX-License-Identifier: Apache-2.0

package server

import (
	"context"
	"fmt"
	"net/url"
	"strings"

	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apiserver/pkg/audit"
	"k8s.io/apiserver/pkg/authorization/authorizer"

	"github.com/tripod-k8s/tripod/services/search/query"
	"github.com/tripod-k8s/tripod/services/search/v1beta1"
)

const (
	clustersLabel = "search.clusterpedia.io/clusters"
	// clusterAudit is the annotation of audit events with the cluster of a request.
	clusterAudit = "clusterpedia.io/cluster"
)

// NewAuthorizer returns what decides about requests for objects of clusters: the policy of the hub about the resource "resources" of the group
// clusterpedia.io. The verb is that of the nested request, and the name is the cluster. A rule may be about all of a cluster, or about one
// resource of it, as the subresource: resources/deployments.apps. A request for all clusters has no name. If it names clusters in its
// parameters, it is allowed if each of them is.
func NewAuthorizer(next authorizer.Authorizer) authorizer.Authorizer { return &hubAuthorizer{next} }

type hubAuthorizer struct{ next authorizer.Authorizer }

// Authorize implements authorizer.Authorizer.
func (h *hubAuthorizer) Authorize(ctx context.Context, a authorizer.Attributes) (authorizer.Decision, string, error) {
	n := nestedIn("GET", a.GetPath(), false)
	if n == nil || !a.IsResourceRequest() {
		return h.next.Authorize(ctx, a)
	}
	if n.Cluster != "" {
		audit.AddAuditAnnotation(ctx, clusterAudit, n.Cluster)
	}
	decision, reason, err := h.forCluster(ctx, a, n.Cluster)
	if decision == authorizer.DecisionAllow || n.Cluster != "" {
		return decision, reason, err
	}
	for _, cluster := range namedClusters(a) {
		if decision, reason, err = h.forCluster(ctx, a, cluster); decision != authorizer.DecisionAllow {
			break
		}
	}
	return decision, reason, err
}

// forCluster decides about one cluster, or all if the name is empty.
func (h *hubAuthorizer) forCluster(ctx context.Context, a authorizer.Attributes, cluster string) (authorizer.Decision, string, error) {
	asked := authorizer.AttributesRecord{
		User: a.GetUser(), Verb: a.GetVerb(), APIGroup: v1beta1.GroupVersion.Group, APIVersion: v1beta1.GroupVersion.Version,
		Resource: "resources", Name: cluster, ResourceRequest: true, Path: a.GetPath(),
	}
	decision, reason, err := h.next.Authorize(ctx, asked)
	if decision != authorizer.DecisionNoOpinion {
		return decision, reason, err
	}
	asked.Subresource = subresource(a)
	decision, _, err = h.next.Authorize(ctx, asked)
	if decision != authorizer.DecisionAllow {
		where := "all clusters"
		if cluster != "" {
			where = "cluster " + cluster
		}
		reason = fmt.Sprintf("%s: needs a role with verb %s for resources or resources/%s of the group %s", where, asked.Verb, asked.Subresource, asked.APIGroup)
	}
	return decision, reason, err
}

// subresource returns the resource in a cluster as rules name it: deployments.apps.
func subresource(a authorizer.Attributes) string {
	if a.GetAPIGroup() == "" {
		return a.GetResource()
	}
	return a.GetResource() + "." + a.GetAPIGroup()
}

// clustersOf returns a label selector with the clusters that parameters name. It is empty if they name none.
func clustersOf(values url.Values) string {
	only := url.Values{}
	for _, name := range []string{"clusters", "labelSelector"} {
		if values.Has(name) {
			only[name] = values[name]
		}
	}
	q, err := query.Parse(only)
	if err != nil || len(q.Clusters.In) == 0 {
		return "" // the handler tells what is wrong
	}
	return clustersLabel + " in (" + strings.Join(q.Clusters.In, ",") + ")"
}

// namedClusters returns what clustersOf has written.
func namedClusters(a authorizer.Attributes) []string {
	requirements, err := a.GetLabelSelector()
	if err != nil {
		return nil
	}
	i := indexOf(requirements, clustersLabel)
	if i < 0 {
		return nil
	}
	return requirements[i].Values().List()
}

func indexOf(requirements labels.Requirements, key string) int {
	for i := range requirements {
		if requirements[i].Key() == key {
			return i
		}
	}
	return -1
}
