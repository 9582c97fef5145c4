// Copyright The Tripod Authors.
// SPDX-License-Identifier: Apache-2.0

//go:build tools

// Package assets keeps in go.mod what only `make test-assets` builds: the stock binaries that tests compare and run
// with.
package assets

import (
	_ "k8s.io/kubernetes/cmd/kube-apiserver"
	_ "k8s.io/kubernetes/cmd/kube-controller-manager"
	_ "k8s.io/kubernetes/cmd/kube-scheduler"
	_ "k8s.io/sample-apiserver"
)
