// Copyright The Tripod Authors.
// SPDX-License-Identifier: Apache-2.0

// Package dataplane has clients use Tripod while its replicas come, go and die. Tests count what clients get, and look
// at the order of what they see; of times they only print what they measured.
//
// The tests share one Tripod of three replicas of core and two of each other service, and run one after the other. Each
// begins by saying which replicas it needs. With TRIPOD_LONG=1 they take minutes rather than seconds.
package dataplane
