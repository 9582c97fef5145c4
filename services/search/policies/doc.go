// Copyright The Tripod Authors.
// SPDX-License-Identifier: Apache-2.0

// Package policies makes PediaClusters of other objects, as ClusterImportPolicies say: a policy makes a PediaClusterLifecycle of each source, and a
// PediaClusterLifecycle makes a PediaCluster.
//
// Replicas need no leader. What they write depends on the objects alone, and each compares it with what is there.
package policies
