// Copyright The Tripod Authors.
// SPDX-License-Identifier: Apache-2.0

// Package endpoints tests that the endpoints of the kubernetes Service are the aggregators: that they come when they are ready,
// go when they stop, and get along with those of a kube-apiserver on the same etcd.
package endpoints
