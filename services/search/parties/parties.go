// Copyright The Tripod Authors.
// SPDX-License-Identifier: Apache-2.0

// Package parties names who has a share of what search has for clusters.
package parties

import "strings"

// Party has one share. The PediaClusters that a ClusterImportPolicy has made of the sources in one namespace are a party, and each other
// PediaCluster is one by itself. No cluster is equal to a policy, whatever their names are. The zero value is no party.
type Party struct{ policy, namespace, cluster string }

// OfPolicy returns the party of the PediaClusters that a policy makes of the sources in a namespace, which is empty if these have none.
func OfPolicy(policy, namespace string) Party { return Party{policy: policy, namespace: namespace} }

// OfCluster returns the party of a PediaCluster by itself.
func OfCluster(name string) Party { return Party{cluster: name} }

// Of returns the party of a PediaCluster whose party has a text. A text without a slash, which no policy has, leaves it by itself.
func Of(cluster, text string) Party {
	if policy, namespace, shared := strings.Cut(text, "/"); shared {
		return OfPolicy(policy, namespace)
	}
	return OfCluster(cluster)
}

// Text is what Of reads: POLICY/NAMESPACE, or nothing if a PediaCluster is by itself.
func (p Party) Text() string {
	if !p.IsShared() {
		return ""
	}
	return p.policy + "/" + p.namespace
}

// Policy returns the name of the policy of a party, which is empty if a PediaCluster is by itself.
func (p Party) Policy() string { return p.policy }

// IsShared reports whether the party may have several PediaClusters.
func (p Party) IsShared() bool { return p != Party{} && p.cluster == "" }
