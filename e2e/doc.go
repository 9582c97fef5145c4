// Copyright The Tripod Authors.
// SPDX-License-Identifier: Apache-2.0

// Package e2e tests Tripod as its users run it. It installs the chart into a kind cluster, and uses client-go and kubectl from outside
// through a port of a node. `make e2e` runs the tests; package environment lists the environment variables.
//
// The tests share one release, which the function shared returns. Each area is a file with one test, so that -run selects areas:
//
//	make e2e E2E_TESTS=./e2e E2E_ARGS='-run TestScale'
//
// Each test leaves the release as it found it, with one replica of each service.
package e2e
