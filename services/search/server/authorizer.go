// Copyright The Tripod Authors.
// SPDX-License-Identifier: Apache-2.0

package server

import (
	"context"
	"fmt"
	"net/url"
	"strings"

	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apiserver/pkg/audit"
	"k8s.io/apiserver/pkg/authentication/user"
	"k8s.io/apiserver/pkg/authorization/authorizer"

	"github.com/tripod-k8s/tripod/base/hop/trust"
	"github.com/tripod-k8s/tripod/services/search/apis/search/v1beta1"
	"github.com/tripod-k8s/tripod/services/search/query"
	"github.com/tripod-k8s/tripod/services/search/rights"
)

const (
	clustersLabel = "search.clusterpedia.io/clusters"
	// clusterAudit is the annotation of audit events with the cluster of a request.
	clusterAudit = "clusterpedia.io/cluster"
)

// NewAuthorizer returns what decides about requests for objects of clusters.
//
// First that is the policy of the hub about the resource "resources" of the group clusterpedia.io. The verb is that of the nested request,
// and the name is the cluster. A rule may be about all of a cluster, or about one resource of it, as the subresource:
// resources/deployments.apps. A request for all clusters has no name.
//
// If the hub has no opinion, the rights of the reader in the clusters decide, and with them the request sees a part of the objects. A
// request that names clusters in its parameters is allowed if the reader may see something in each of them.
func NewAuthorizer(next trust.Unconditional, of *rights.Rights) authorizer.Authorizer {
	// Searches only read, and no read has conditions.
	return authorizer.AuthorizerFunc((&hubAuthorizer{next, of}).Authorize)
}

type hubAuthorizer struct {
	next   trust.Unconditional
	rights *rights.Rights
}

// Authorize decides about a request. It notes what the reader may see.
func (h *hubAuthorizer) Authorize(ctx context.Context, a authorizer.Attributes) (authorizer.Decision, string, error) {
	n := nestedOf(ctx, a.GetPath())
	if n == nil {
		n = nestedIn("GET", a.GetPath(), false)
	}
	if n == nil || n.class == classCollection || !a.IsResourceRequest() {
		decision, reason, err := h.next.Authorize(ctx, a)
		switch {
		case n == nil || err != nil:
		case n.class == classCollection:
			return h.collection(ctx, a, decision, reason)
		case decision == authorizer.DecisionAllow:
			return h.discovery(ctx, a, n.Cluster, reason)
		}
		return decision, reason, err
	}
	if n.Cluster != "" {
		audit.AddAuditAnnotation(ctx, clusterAudit, n.Cluster)
	}
	if n.class == classReview {
		// As in any cluster, the policy says who may ask. What is asked about is decided later.
		decision, reason, err := h.next.Authorize(ctx, a)
		if decision != authorizer.DecisionAllow || err != nil {
			return decision, reason, err
		}
		storeJudge(ctx, &judge{h})
		return h.discovery(ctx, a, n.Cluster, reason)
	}
	if a.GetVerb() == "watch" {
		storeAgain(ctx, func(ctx context.Context) (*rights.AccessSet, error) {
			ctx = withRequestState(ctx)
			decision, _, err := h.nested(ctx, a, n)
			if decision != authorizer.DecisionAllow || err != nil {
				return nil, err
			}
			return accessSetFrom(ctx)
		})
	}
	if n.class == classRelations && a.GetVerb() == "get" && n.Cluster != "" {
		return h.relations(ctx, a, n)
	}
	return h.nested(ctx, a, n)
}

// relations decides about a request for what is related to an object. The reader needs the right to get the object, and sees the related
// objects that a list would show: otherwise the answer would have names that the reader may only guess.
func (h *hubAuthorizer) relations(ctx context.Context, a authorizer.Attributes, n *Nested) (authorizer.Decision, string, error) {
	decision, reason, err := h.nested(ctx, a, n)
	if decision != authorizer.DecisionAllow || err != nil {
		return decision, reason, err
	}
	asked := questionOf(a.GetUser(), "list", n.Cluster, a.GetPath())
	granted, why, err := h.next.Authorize(ctx, asked)
	switch {
	case err != nil:
		return authorizer.DecisionNoOpinion, "", err
	case granted == authorizer.DecisionDeny: // a list would be refused, whatever the cluster allows
		return granted, why, nil
	case granted == authorizer.DecisionAllow:
		storeListed(ctx, rights.Unlimited(a.GetUser()))
		return decision, reason, nil
	}
	accessSet, err := h.rights.AccessSet(ctx, a.GetUser(), "list", n.Cluster)
	if err != nil {
		return authorizer.DecisionNoOpinion, "", err
	}
	storeListed(ctx, accessSet)
	return decision, reason, nil
}

// nested decides about a request for objects of clusters.
func (h *hubAuthorizer) nested(ctx context.Context, a authorizer.Attributes, n *Nested) (authorizer.Decision, string, error) {
	decision, only, reason, err := h.granted(ctx, a, n.Cluster)
	if decision == authorizer.DecisionDeny || err != nil {
		return decision, reason, err
	}
	if decision == authorizer.DecisionAllow && only == nil {
		storeAccessSet(ctx, rights.Unlimited(a.GetUser()))
		return decision, reason, nil
	}
	clusters := append(named(n.Cluster), namedClusters(a)...)
	accessSet, err := h.rights.AccessSet(ctx, a.GetUser(), a.GetVerb(), clusters...)
	if err != nil {
		return authorizer.DecisionNoOpinion, "", err
	}
	if decision == authorizer.DecisionAllow {
		storeAccessSet(ctx, accessSet.WithGrant(n.Cluster, only))
		return decision, reason, nil
	}
	if n.Cluster == "" && len(clusters) > 0 {
		return h.named(ctx, a, accessSet, clusters)
	}
	if !allowsAny(accessSet, a, n.Cluster) {
		return decision, reason, nil
	}
	storeAccessSet(ctx, accessSet)
	return authorizer.DecisionAllow, byMembers, nil
}

// named returns a list with a cluster, unless its name is empty.
func named(cluster string) []string {
	if cluster == "" {
		return nil
	}
	return []string{cluster}
}

// aboutClusters reports whether a decision is about clusters as wholes. A reader without a grant needs two of them for each search.
func aboutClusters(a authorizer.Attributes) bool {
	group, resource := a.GetAPIGroup(), a.GetResource()
	return a.IsResourceRequest() && group == v1beta1.GroupVersion.Group && resource == rights.Resource && a.GetNamespace() == ""
}

// byMembers is the reason of decisions by the RBAC of clusters.
const byMembers = "allowed by the RBAC of the cluster"

// named decides about a request that names clusters in its parameters.
func (h *hubAuthorizer) named(ctx context.Context, a authorizer.Attributes, accessSet *rights.AccessSet,
	clusters []string) (authorizer.Decision, string, error) {
	for _, cluster := range clusters {
		decision, only, reason, err := h.granted(ctx, a, cluster)
		if decision == authorizer.DecisionAllow && err == nil {
			accessSet = accessSet.WithGrant(cluster, only)
			continue
		}
		if decision == authorizer.DecisionDeny || err != nil || !allowsAny(accessSet, a, cluster) {
			return decision, reason, err
		}
	}
	storeAccessSet(ctx, accessSet)
	return authorizer.DecisionAllow, byMembers, nil
}

// allowsAny reports whether a reader may read anything of what is asked for, in a cluster or in all.
func allowsAny(accessSet *rights.AccessSet, a authorizer.Attributes, cluster string) bool {
	if cluster != "" && a.GetVerb() == "get" {
		return accessSet.Allows(cluster, resourceOf(a), objectNamespace(a), a.GetName())
	}
	return accessSet.AllowsAny(cluster, resourceOf(a), a.GetNamespace())
}

// collection decides about a request for the objects of a collection. A grant for a collection is one for all that is in it.
func (h *hubAuthorizer) collection(ctx context.Context, a authorizer.Attributes, decision authorizer.Decision,
	reason string) (authorizer.Decision, string, error) {
	if decision == authorizer.DecisionAllow {
		storeAccessSet(ctx, rights.Unlimited(a.GetUser()))
	}
	if decision != authorizer.DecisionNoOpinion {
		return decision, reason, nil
	}
	accessSet, err := h.rights.AccessSet(ctx, a.GetUser(), "list")
	if err != nil || !accessSet.AllowsAnywhere() {
		return decision, reason, err
	}
	storeAccessSet(ctx, accessSet)
	return authorizer.DecisionAllow, byMembers, nil
}

// discovery notes in which clusters the reader of a discovery document may see something. If that cannot be determined, the document is for
// every reader who may read such documents at all.
func (h *hubAuthorizer) discovery(ctx context.Context, a authorizer.Attributes, cluster, reason string) (authorizer.Decision, string,
	error) {
	accessSet, err := h.rights.AccessSet(ctx, a.GetUser(), "list", named(cluster)...)
	if err != nil {
		return authorizer.DecisionNoOpinion, "", err
	}
	switch {
	case !accessSet.KnowsHub():
		accessSet = rights.Unlimited(a.GetUser())
	case cluster == "" || !accessSet.AllowsAnyIn(cluster):
		granted, _, err := h.next.Authorize(ctx, questionOf(a.GetUser(), "list", cluster, a.GetPath()))
		if err != nil {
			return authorizer.DecisionNoOpinion, "", err
		}
		if granted == authorizer.DecisionAllow {
			accessSet = rights.Unlimited(a.GetUser())
		}
	}
	storeAccessSet(ctx, accessSet)
	return authorizer.DecisionAllow, reason, nil
}

// granted returns what the policy of the hub says about one cluster, or about all if the name is empty. An allowed request is for all
// resources, or only for the one that is returned.
func (h *hubAuthorizer) granted(ctx context.Context, a authorizer.Attributes, cluster string) (d authorizer.Decision,
	only *schema.GroupResource, reason string, err error) {
	asked := questionOf(a.GetUser(), a.GetVerb(), cluster, a.GetPath())
	if d, reason, err = h.next.Authorize(ctx, asked); d != authorizer.DecisionNoOpinion || err != nil {
		return d, nil, reason, err
	}
	resource := resourceOf(a)
	asked.Subresource = resource.String()
	if d, reason, err = h.next.Authorize(ctx, asked); d == authorizer.DecisionNoOpinion && err == nil {
		where := "all clusters"
		if cluster != "" {
			where = "cluster " + cluster
		}
		reason = fmt.Sprintf("%s: needs a role with verb %s for resources or resources/%s of the group %s, or the right in the cluster itself "+
			"if its PediaCluster has memberRBAC",
			where, asked.Verb, asked.Subresource, asked.APIGroup)
	}
	return d, &resource, reason, err
}

// questionOf returns what the hub is asked about a cluster, or about all if the name is empty.
func questionOf(reader user.Info, verb, cluster, path string) authorizer.AttributesRecord {
	return authorizer.AttributesRecord{
		User: reader, Verb: verb, APIGroup: v1beta1.GroupVersion.Group, APIVersion: v1beta1.GroupVersion.Version,
		Resource: rights.Resource, Name: cluster, ResourceRequest: true, Path: path,
	}
}

func resourceOf(a authorizer.Attributes) schema.GroupResource {
	return schema.GroupResource{Group: a.GetAPIGroup(), Resource: a.GetResource()}
}

// objectNamespace returns the namespace of an object. Requests for a Namespace say that it is in itself.
func objectNamespace(a authorizer.Attributes) string {
	if resourceOf(a) == (schema.GroupResource{Resource: "namespaces"}) {
		return ""
	}
	return a.GetNamespace()
}

// clustersOf returns a label selector with the clusters that parameters name. It is empty if they name none.
func clustersOf(values url.Values) string {
	q, err := query.Parse(values)
	if err != nil || len(q.Clusters.In) == 0 {
		return "" // the handler reports what is wrong
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
