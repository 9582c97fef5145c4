// Copyright The Tripod Authors.
// SPDX-License-Identifier: Apache-2.0

// Package view reads what an aggregator publishes in its metrics: the states of replicas, their requests, and its own process.
//
// [Families] reads some metrics of a text, and bounds what it reads and keeps. [Read] makes a view of them.
package view
