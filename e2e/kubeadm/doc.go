// Copyright The Tripod Authors.
// SPDX-License-Identifier: Apache-2.0

// Package kubeadm tests docs/kubeadm.md: kubeadm itself makes a cluster whose API server is Tripod, joins nodes to it, renews its certificates,
// upgrades it to another build of Tripod, and gives it back to kube-apiserver. kind only provides the nodes. `make e2e-kubeadm` runs it.
package kubeadm
