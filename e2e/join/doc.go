// Copyright The Tripod Authors.
// SPDX-License-Identifier: Apache-2.0

// Package join makes a whole cluster of the chart: helm installs Tripod with kube-controller-manager and kube-scheduler, and another machine joins it by
// kubeadm, runs pods and leaves.
package join
