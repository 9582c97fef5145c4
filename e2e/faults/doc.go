// Copyright The Tripod Authors.
// SPDX-License-Identifier: Apache-2.0

// Package faults tests what clients see of a release in which something breaks: pods that are killed, that hang, that are cut off; an
// etcd that is away; and of one whose certificates are exchanged. The release has two replicas of each service, and an
// etcd for each of core and extensions.
//
// A test leaves the release well.
package faults
