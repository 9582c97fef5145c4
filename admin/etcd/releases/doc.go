// Copyright The Tripod Authors.
// SPDX-License-Identifier: Apache-2.0

// Package releases restores an etcd of a Helm release, on all members, from the place where the release saves its snapshots.
//
// It stops what uses the etcd, then the etcd, runs a Job with the volume of each member, and starts all again:
//
//	find -> check the snapshot -> claim -> stop -> check each member -> restore each member -> start
//
// Annotations of the StatefulSet name the restore, its phase, and the command that does it, so that the same command continues where an
// earlier one was interrupted, and only one goes on. Until the first member is restored, a failure starts everything again with the old
// data. Once etcd starts with the new data, nothing is restored again. If anything else has started etcd in between, the command stops:
// members that have the new data would look like those that went on with the old data.
package releases
