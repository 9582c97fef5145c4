// Copyright The Tripod Authors.
// SPDX-License-Identifier: Apache-2.0

// Package pediaclusters has the controller of PediaClusters: it copies the clusters that these name, and writes their state to the status.
//
// A PediaCluster that changes gets another member with the new configuration. One that is removed takes what is known of its cluster with
// it. Each cluster is on its own: others do not notice when one is away.
package pediaclusters
