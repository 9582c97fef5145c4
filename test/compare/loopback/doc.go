// Copyright The Tripod Authors.
// SPDX-License-Identifier: Apache-2.0

// Package loopback tests that admission inside of each service sees what other services serve, as the loopback clients of
// kube-apiserver do, and that services start and stay without those. What can be is done to a stock kube-apiserver as well.
package loopback
