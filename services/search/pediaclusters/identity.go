// Copyright The Tripod Authors.
// SPDX-License-Identifier: Apache-2.0

package pediaclusters

import (
	"context"

	"k8s.io/klog/v2"

	"github.com/tripod-k8s/tripod/services/search/apis/cluster/v1alpha2"
)

// identify makes sure that what the store has of a cluster is of this PediaCluster, and not of one that had the name before: readers of the
// new one must not find what the former one had. It returns false if nothing may be copied yet. uids are nil if the database is away.
func (m *Controller) identify(ctx, waiting context.Context, cluster *v1alpha2.PediaCluster, uids map[string]string) bool {
	name, uid := cluster.Name, string(cluster.UID)
	switch r := m.running[name]; {
	case name == m.Hub || uids == nil && r != nil || uids[name] == uid:
		return true
	case uids == nil:
		return false
	case uids[name] == "" && !m.shards.Mine(name):
		return true
	case uids[name] != "":
		if r != nil {
			if !r.ended(waiting) {
				return false
			}
			delete(m.running, name)
		}
		if !m.shards.Mine(name) {
			return false
		}
		klog.InfoS("A cluster has the name of another one, which is forgotten", "cluster", name)
		if !m.removals.remove(ctx, waiting, name) {
			return false
		}
	}
	if err := m.store.SetClusterUID(ctx, name, uid); err != nil {
		klog.ErrorS(err, "Cannot note which cluster has a name", "cluster", name)
		return false
	}
	return true
}
