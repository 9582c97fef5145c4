// Copyright The Tripod Authors.
// SPDX-License-Identifier: Apache-2.0

// Package faults tests what clients notice when part of a release fails: a pod is killed, hangs, or is cut off from the network; an etcd is
// down; certificates and authorities are replaced. The release has two replicas of each service, and one etcd each for core and extensions.
//
// Each test leaves the release healthy.
package faults
