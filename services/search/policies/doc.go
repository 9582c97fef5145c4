// Copyright The Tripod Authors.
// SPDX-License-Identifier: Apache-2.0

// Package policies makes PediaClusters of other objects, as ClusterImportPolicies say: a policy makes a PediaClusterLifecycle of each
// source, and a PediaClusterLifecycle makes a PediaCluster.
//
// A writer of lifecycles may not read what search reads. So search believes a lifecycle only if a policy makes it of one of its
// sources now, and not by its owner references. Templates run in a process of their own (templates).
//
// Replicas need no leader. What they write depends on the objects alone, and each compares it with what is there.
package policies
