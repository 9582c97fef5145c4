// Copyright The Tripod Authors.
// SPDX-License-Identifier: Apache-2.0

// Package endpoints keeps the endpoints of the kubernetes Service: the aggregators that advertise their addresses to this replica of core
// (tripod.endpoints.v1).
//
// kube-apiserver's own reconcilers write the endpoints, with kube-apiserver's leases under /registry/masterleases, in the name of each
// aggregator. Every replica of core renews the same leases. kube-apiservers on the same etcd keep theirs.
package endpoints
