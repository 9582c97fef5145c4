// Copyright The Tripod Authors.
// SPDX-License-Identifier: Apache-2.0

// Package join lets nodes join a cluster by `kubeadm join`. [Prepare] writes what kubeadm and the kubelet read there: the ConfigMaps
// cluster-info, kubeadm-config and kubelet-config, and the rights of nodes and bootstrap tokens. [Command] makes a bootstrap token. The
// code and the names are kubeadm's, so that all of its commands for nodes work afterwards.
package join
