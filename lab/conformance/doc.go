// Copyright The Tripod Authors.
// SPDX-License-Identifier: Apache-2.0

// Command conformance runs specs of Kubernetes' own end-to-end suite, of the groups whose specs are about the API, against a stock kube-apiserver and
// against Tripod, and reports differences. It exits with 1 if a spec passes on stock and not on Tripod.
//
// Beside each cluster run kube-controller-manager, kube-scheduler, and kwok with two nodes, whose pods only pretend to run. So only specs
// that need no real container can pass. A run on stock finds them, and writes them to specs.txt:
//
//	go run ./lab/conformance -refresh
//
// The results stay in bin/conformance by version, so that an interrupted command goes on where it was. Specs behind feature gates run in clusters with
// these gates.
package main
