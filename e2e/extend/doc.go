// Copyright The Tripod Authors.
// SPDX-License-Identifier: Apache-2.0

// Package extend follows tutorials to their end in a cluster: docs/extend.md with an API service that has two replicas, an autoscaler and alerts, and
// docs/partitions.md with a partition that has an etcd of its own.
package extend
