// Copyright The Tripod Authors.
// SPDX-License-Identifier: Apache-2.0

// Package takeover tests docs/migrate.md on a kubeadm cluster: in a kind cluster of its own, Tripod replaces kube-apiserver in the static
// pod while workloads go on, and kube-apiserver then replaces Tripod.
package takeover
