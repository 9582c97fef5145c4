// Copyright The Tripod Authors.
// SPDX-License-Identifier: Apache-2.0

//go:build tools

// Package e2e keeps in go.mod what only `make conformance`, `make kubectl-suite` and `make e2e-kubeadm` build: the end-to-end tests of
// Kubernetes, the runner that they need, the programs that its kubectl tests use, and kubeadm.
package e2e

import (
	_ "github.com/onsi/ginkgo/v2/ginkgo"
	_ "k8s.io/kubernetes/cmd/kubeadm"
	_ "k8s.io/kubernetes/cmd/kubectl"
	_ "k8s.io/kubernetes/cmd/kubectl-convert"
	_ "k8s.io/kubernetes/test/e2e"
)
