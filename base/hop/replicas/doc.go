// Copyright The Tripod Authors.
// SPDX-License-Identifier: Apache-2.0

// Package replicas finds the replicas of a service, and asks them whether they are ready.
//
// A [Set] looks up the DNS names of a service. It does not trust every answer: if an answer leads to no ready replica, known ready replicas
// stay. [Probe.Ask] probes one replica, and [ParseChecks] reads the output of its checks.
package replicas
