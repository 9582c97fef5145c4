// Copyright The Tripod Authors.
// SPDX-License-Identifier: Apache-2.0

package policies

import (
	"context"
	"encoding/json"
	"slices"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/component-base/metrics"
	"k8s.io/component-base/metrics/legacyregistry"
	"k8s.io/klog/v2"

	"github.com/tripod-k8s/tripod/services/search/apis/cluster/v1alpha2"
	"github.com/tripod-k8s/tripod/services/search/apis/policy/v1alpha1"
	"github.com/tripod-k8s/tripod/services/search/parties"
)

// tooManyClusters is the reason of policies with sources of which no PediaCluster is made.
const tooManyClusters = "TooManyPediaClusters"

var refusedSources = metrics.NewGauge(&metrics.GaugeOpts{
	Name: "tripod_search_import_sources_refused",
	Help: "Sources of ClusterImportPolicies of which no PediaCluster is made, because there are --import-max-clusters of their namespace. " +
		"The log and the condition Reconciling say of which policies.",
	StabilityLevel: metrics.ALPHA,
})

func init() { legacyregistry.MustRegister(refusedSources) }

// party returns the party of the PediaClusters of an origin: users who may create sources in its namespace have made them. Sources without
// a namespace are of one party, too.
func (o *origin) party() parties.Party {
	return parties.OfPolicy(o.policy.Name, o.source.GetNamespace())
}

// setParties writes the parties of PediaClusters into their status. A user who may write PediaClusters, or PediaClusterLifecycles, must not
// choose their party: the policies of this pass decide it by their sources.
func (p *Policies) setParties(ctx context.Context, s *state) {
	for _, cluster := range s.clusters {
		party, known := s.partyOf(cluster)
		if !known || party == cluster.Status.Party {
			continue
		}
		if party == "" && s.isLeft(cluster) {
			p.remove(ctx, clusterResource, &cluster.ObjectMeta)
			continue
		}
		if err := p.setParty(ctx, cluster.Name, party); err != nil && !apierrors.IsNotFound(err) && ctx.Err() == nil {
			klog.ErrorS(err, "Cannot write the party of a PediaCluster", "cluster", cluster.Name)
		}
	}
}

// partyOf returns the party of a PediaCluster, which is empty if it is one by itself. What cannot be known in this pass stays as it is.
func (s *state) partyOf(cluster *v1alpha2.PediaCluster) (party string, known bool) {
	lifecycle := s.lifecycles[cluster.Name]
	if lifecycle == nil {
		_, late := s.made[cluster.Name]
		return "", !late && !s.unclear[cluster.Name] && !s.isUnread(cluster.Name) && !s.goes(cluster)
	}
	made, known, err := verify(lifecycle, s)
	if !known {
		return "", false
	}
	if err == nil && mayChange(lifecycle, made.party(), cluster) {
		return made.party().Text(), true
	}
	return "", !s.goes(cluster)
}

// goes reports whether collect will remove a PediaCluster, because the lifecycles that own it are gone.
func (s *state) goes(cluster *v1alpha2.PediaCluster) bool {
	lives := func(o metav1.OwnerReference) bool {
		return o.Kind != v1alpha1.LifecycleKind || o.APIVersion != v1alpha1.GroupVersion.String() || s.ofUID[o.UID]
	}
	return len(cluster.OwnerReferences) > 0 && !slices.ContainsFunc(cluster.OwnerReferences, lives)
}

// isLeft reports whether search has made a PediaCluster of a source of which its policy makes nothing any more. Its lifecycle should go,
// and the PediaCluster with it, but a writer of lifecycles can keep the lifecycle, or delete it without what it owns. The PediaCluster
// would then be one that no limit counts.
func (s *state) isLeft(cluster *v1alpha2.PediaCluster) bool {
	ofOthers := func(o metav1.OwnerReference) bool { return o.Kind != v1alpha1.LifecycleKind }
	return s.policyOf(cluster) != nil && isMadeFor(parties.Of(cluster.Name, cluster.Status.Party), cluster) &&
		!slices.ContainsFunc(cluster.OwnerReferences, ofOthers)
}

// policyOf returns the policy whose party a PediaCluster has, or nil.
func (s *state) policyOf(cluster *v1alpha2.PediaCluster) *v1alpha1.ClusterImportPolicy {
	name := parties.Of(cluster.Name, cluster.Status.Party).Policy()
	if i := slices.IndexFunc(s.policies, func(p *v1alpha1.ClusterImportPolicy) bool { return p.Name == name }); i >= 0 {
		return s.policies[i]
	}
	return nil
}

// isUnread reports whether it is not known what the policy makes whose party the PediaCluster of a lifecycle has.
func (s *state) isUnread(name string) bool {
	cluster := s.clusters[name]
	if cluster == nil {
		return false
	}
	policy := s.policyOf(cluster)
	return policy != nil && s.unread[policy.UID]
}

// setParty writes a party into the status of a PediaCluster. An empty one removes it.
func (p *Policies) setParty(ctx context.Context, cluster, party string) error {
	var value any
	if party != "" {
		value = party
	}
	patch, err := json.Marshal(map[string]any{"status": map[string]any{"party": value}})
	if err == nil {
		_, err = p.client.Resource(clusterResource).Patch(ctx, cluster, types.MergePatchType, patch, metav1.PatchOptions{}, "status")
	}
	return err
}

// onlyParty removes all from the status of a PediaCluster but its party.
func onlyParty(cluster *unstructured.Unstructured) {
	party, _, _ := unstructured.NestedString(cluster.Object, "status", "party")
	if unstructured.RemoveNestedField(cluster.Object, "status"); party != "" {
		cluster.Object["status"] = map[string]any{"party": party}
	}
}

// count reports sources of which no PediaCluster is made.
func (p *Policies) count(s *state) {
	all := 0
	for _, policy := range s.policies {
		now := s.refused[policy.UID]
		if all += now; now > 0 && p.refused[policy.UID] == 0 {
			klog.InfoS("A policy has more sources in a namespace than search makes PediaClusters of", "policy", policy.Name, "most", p.most,
				"more", now)
		}
	}
	p.refused = s.refused
	refusedSources.Set(float64(all))
}
