// Copyright The Tripod Authors.
// SPDX-License-Identifier: Apache-2.0

// Package data follows docs/backup.md and docs/migrate.md in a kind cluster: it saves and restores snapshots by values of the chart and by
// commands, and moves custom resources to an etcd of their own.
package data
