// Copyright The Tripod Authors.
// SPDX-License-Identifier: Apache-2.0

// Command conformance runs Kubernetes' own conformance specs against a stock kube-apiserver and against Tripod, and
// tells what differs. It exits with 1 when a spec passes on stock and not on Tripod.
//
// Beside each cluster run kube-controller-manager, kube-scheduler, and kwok with two nodes whose pods only seem to run.
// So the specs are those that need no real container. Which these are was found by a run on stock:
//
//	go run ./test/suites/conformance -refresh
//
// writes them to specs.txt. What stock makes of them is kept in bin/conformance, until the version of Kubernetes or the
// list changes.
package main
