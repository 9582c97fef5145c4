// Copyright The Tripod Authors.
// SPDX-License-Identifier: Apache-2.0

// Package dataplane has clients use Tripod while its replicas come, go and die. Tests count what clients get, and look
// at the order of what they see. What they measure they only print, as attributes: `go test -json` has them in a form
// that a benchmark can collect.
//
// Most tests share one Tripod of up to three replicas of core and two of each other service, and run one after the other.
// Each begins with the replicas that it needs.
package dataplane
