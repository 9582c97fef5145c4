// Copyright The Tripod Authors.
// SPDX-License-Identifier: Apache-2.0

// Package snapshot saves the data of an etcd to files, and restores such a file as a member of a new etcd.
package snapshot
