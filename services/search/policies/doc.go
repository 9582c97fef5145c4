// Copyright The Tripod Authors.
// SPDX-License-Identifier: Apache-2.0

// Package policies makes PediaClusters of other objects, as ClusterImportPolicies say: a policy makes a PediaClusterLifecycle of each
// source, and a PediaClusterLifecycle makes a PediaCluster.
//
// A writer of lifecycles may not read what search reads. So search accepts a lifecycle only if a policy makes it of one of its
// sources now, and not by its owner references. Templates run in a process of their own (templates).
//
// It does not use controller-runtime. That reconciles one object at a time, and each pass here compares all policies, sources and
// lifecycles: which of too many references count depends on all of them. It would replace the loop of Run, 30 lines, and bring 52 more
// packages. Its cache bounds no bytes, and the sources are objects of others, so hub.Objects, which does, would stay.
//
// Replicas need no leader. Their writes depend on the objects alone, and each compares them with the present objects.
package policies
