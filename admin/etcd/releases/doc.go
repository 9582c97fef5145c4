// Copyright The Tripod Authors.
// SPDX-License-Identifier: Apache-2.0

// Package releases restores an etcd of a Helm release, on all members, from the place where the release saves its snapshots.
//
// It stops what uses the etcd, then the etcd, runs a Job with the volume of each member, and starts all again:
//
//	find -> check the snapshot -> stop -> check each member -> restore each member -> start
//
// Annotations of the stopped objects keep the numbers of replicas and the name of the restore, so the same command continues where an
// earlier one was interrupted. Until the first member is restored, a failure starts everything again with the old data.
package releases
