// Copyright The Tripod Authors.
// SPDX-License-Identifier: Apache-2.0

// Package extend follows the tutorial in docs/extend.md to its end: an API service with two replicas, an autoscaler and alerts in a cluster of its
// own.
package extend
