// Copyright The Tripod Authors.
// SPDX-License-Identifier: Apache-2.0

// Package snapshot saves the content of an etcd in files and makes a member of a new etcd of such a file.
package snapshot
