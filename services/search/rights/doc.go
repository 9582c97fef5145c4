// Copyright The Tripod Authors.
// SPDX-License-Identifier: Apache-2.0

// Package rights computes what readers of search may see by the RBAC of the clusters themselves.
//
// The RBAC objects of a cluster are copied like all others. They count only if the cluster has a [Policy], because a user name of one
// cluster may be another person in another one. Kubernetes' own resolver decides which rules apply to a user.
//
// [Rights] keeps the RBAC objects in memory. Each cluster has a generation, which the store changes in each transaction that changes a
// rule, a subject or a role of a binding there. The scope of a reader is of one generation of each cluster, and the store
// refuses to search by another one. So a binding that is gone in the database is out of force at once. Clusters are read apart from one
// another: what one of them changes, has too much of or has wrong concerns the readers of that cluster only, and Roles and RoleBindings
// those of their namespace only.
package rights
