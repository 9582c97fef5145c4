// Copyright The Tripod Authors.
// SPDX-License-Identifier: Apache-2.0

// Package join makes a whole cluster of the chart's preset cluster: one helm install, and one kubeadm join on another machine, which runs pods and leaves.
// Nothing is installed by hand.
package join
