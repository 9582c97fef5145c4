// Copyright The Tripod Authors.
// SPDX-License-Identifier: Apache-2.0

// Package requests sends the same requests to a stock kube-apiserver and to Tripod and compares what comes back:
// status, headers, and bodies without what differs between any two clusters (UIDs, resource versions, times, ports).
//
// Differences that must be are listed in accepted.yaml, each with its reason. A difference that is not in the list
// fails the test, and so does an entry of the list that no longer occurs.
//
// With TEST_AGAINST=stock the test compares two stock kube-apiservers and must find nothing at all. A difference is noise, which
// normalise_test.go has to remove or a request has to avoid.
package requests
