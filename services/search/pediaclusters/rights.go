// Copyright The Tripod Authors.
// SPDX-License-Identifier: Apache-2.0

package pediaclusters

import (
	"context"
	"strings"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/klog/v2"

	"github.com/tripod-k8s/tripod/services/search/apis/cluster/v1alpha2"
	"github.com/tripod-k8s/tripod/services/search/parties"
	"github.com/tripod-k8s/tripod/services/search/rights"
	"github.com/tripod-k8s/tripod/services/search/store/access"
)

// partyOf returns the party of a cluster, as its status says. Nothing else that a writer of PediaClusters may write counts.
func partyOf(cluster *v1alpha2.PediaCluster) parties.Party {
	return parties.Of(cluster.Name, cluster.Status.Party)
}

// policyOf returns the policy of rights of a cluster as the store keeps it. It is empty if only grants of the hub count.
func policyOf(spec *v1alpha2.ClusterSpec, party parties.Party) (string, error) {
	switch {
	case spec.MemberRBAC == nil:
		return "", nil
	case len(spec.Namespaces) > 0:
		return "", errLimitedRBAC
	}
	return rights.Policy{Username: spec.MemberRBAC.Username, Groups: spec.MemberRBAC.Groups, Party: party.Text()}.Encode()
}

// setReadable sets the condition that says which RBAC objects of a cluster cannot be read.
// tooLarge says what of its RBAC takes too much memory, and is empty if nothing does.
func setReadable(status *v1alpha2.ClusterStatus, cluster *v1alpha2.PediaCluster, unreadable []access.Unreadable, tooLarge string) {
	if cluster.Spec.MemberRBAC == nil {
		meta.RemoveStatusCondition(&status.Conditions, v1alpha2.RBACRead)
		return
	}
	read := metav1.Condition{Type: v1alpha2.RBACRead, Status: metav1.ConditionTrue, Reason: "Read", ObservedGeneration: cluster.Generation}
	if tooLarge != "" {
		read.Status, read.Reason, read.Message = metav1.ConditionFalse, "TooLarge", tooLarge
	}
	if len(unreadable) > 0 {
		read.Status, read.Reason, read.Message = metav1.ConditionFalse, "Unreadable",
			"the RBAC of these namespaces, and of the cluster if an object has none, shows nothing to any reader, because these objects "+
				"cannot be read: "
		for i, one := range unreadable {
			if i > 0 {
				read.Message += "; "
			}
			read.Message += nameOf(one) + ": " + one.Reason
		}
	}
	read.Message = read.Message[:min(len(read.Message), maxMessage)]
	meta.SetStatusCondition(&status.Conditions, read)
}

// nameOf names what cannot be read: an object, or all of a resource.
func nameOf(one access.Unreadable) string {
	if one.Name == "" {
		return "all " + one.Resource
	}
	return one.Resource + " " + strings.TrimPrefix(one.Namespace+"/"+one.Name, "/")
}

// setRights makes the store have the policies of clusters. One replica does that for each of them. A policy does not count for objects of
// another cluster that had the name before. uids are nil if the database is away.
func (m *Controller) setRights(ctx context.Context, clusters map[string]*v1alpha2.PediaCluster, uids map[string]string) {
	if uids == nil {
		return
	}
	has, err := m.store.RightsPolicies(ctx)
	if err != nil {
		klog.V(2).InfoS("The rights in clusters are not known", "err", err)
		return
	}
	wanted := map[string]string{}
	for name, cluster := range clusters {
		policy, err := policyOf(&cluster.Spec, partyOf(cluster))
		if err != nil {
			klog.V(2).InfoS("The RBAC of a cluster does not count", "cluster", name, "err", err)
			policy = ""
		}
		if former := uids[name]; former != "" && former != string(cluster.UID) || m.removals.going(name) {
			policy = "" // until that one is forgotten
		}
		wanted[name] = policy
	}
	for name := range has {
		if clusters[name] == nil {
			wanted[name] = "" // now, while its removal may wait for others
		}
	}
	if m.Hub != "" {
		if wanted[m.Hub] = ""; m.HubRights {
			if wanted[m.Hub], err = (rights.Policy{Home: true}).Encode(); err != nil {
				klog.ErrorS(err, "The RBAC of the hub does not count")
			}
		}
	}
	for name, policy := range wanted {
		if has[name] == policy || !m.shards.Mine(name) {
			continue
		}
		if err := m.store.SetRights(ctx, name, policy); err != nil && ctx.Err() == nil {
			klog.ErrorS(err, "Cannot set the rights in a cluster", "cluster", name)
		}
	}
}
