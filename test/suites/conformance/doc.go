// Copyright The Tripod Authors.
// SPDX-License-Identifier: Apache-2.0

// Command conformance runs Kubernetes' own conformance specs against a stock kube-apiserver and against Tripod, and reports differences. It
// exits with 1 if a spec passes on stock and not on Tripod.
//
// Beside each cluster run kube-controller-manager, kube-scheduler, and kwok with two nodes, whose pods only pretend to run. So only specs
// that need no real container can pass. A run on stock finds them, and writes them to specs.txt:
//
//	go run ./test/suites/conformance -refresh
//
// The results of stock stay in bin/conformance until the version of Kubernetes or the list changes.
package main
