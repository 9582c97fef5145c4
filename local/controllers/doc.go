// Copyright The Tripod Authors.
// SPDX-License-Identifier: Apache-2.0

// Package controllers runs what an API server is empty without: the unchanged kube-controller-manager and kube-scheduler, and kwok, which
// pretends to be the kubelets of nodes that do not exist.
package controllers
