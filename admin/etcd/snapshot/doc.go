// Copyright The Tripod Authors.
// SPDX-License-Identifier: Apache-2.0

// Package snapshot saves the data of an etcd to files or to a bucket, and restores such a snapshot as a member of a new etcd.
package snapshot
