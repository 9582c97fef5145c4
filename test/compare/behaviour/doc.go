// Copyright The Tripod Authors.
// SPDX-License-Identifier: Apache-2.0

// Package behaviour tests what clients see of a running Tripod.
//
// Nothing in these tests is particular to Tripod unless its comment names that: with TEST_AGAINST=stock in the environment
// the same tests run against the stock kube-apiserver, which distinguishes a wrong test from a wrong Tripod.
package behaviour
