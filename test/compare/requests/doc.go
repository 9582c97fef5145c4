// Copyright The Tripod Authors.
// SPDX-License-Identifier: Apache-2.0

// Package requests sends the same requests to a stock kube-apiserver and to Tripod and compares what comes back:
// status, headers, and bodies without what differs between any two clusters (UIDs, resource versions, times, ports).
//
// Differences that must be are listed in accepted.yaml, each with its reason. A difference that is not in the list
// fails the test, and so does an entry of the list that no longer occurs.
//
// TRIPOD_DIFFERENTIAL_SELF=1 compares the stock kube-apiserver with another one. This must find nothing at all: what
// it finds is noise, which is for normalise_test.go to remove or for a request to avoid.
package requests
