// Copyright The Tripod Authors.
// SPDX-License-Identifier: Apache-2.0

// Package e2e tests Tripod as it is used: installed by its chart into a kind cluster, used with client-go and kubectl
// from outside through a port of a node. `make e2e` runs it; package environment says which variables it knows.
//
// Tests share one release, from shared. Each area is a file with one test, so that -run selects areas:
//
//	make e2e E2E_TESTS=./e2e E2E_ARGS='-run TestScale'
//
// A test leaves the release as it found it, with one replica of each service.
package e2e
