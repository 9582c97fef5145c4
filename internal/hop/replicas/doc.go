// Copyright The Tripod Authors.
// SPDX-License-Identifier: Apache-2.0

// Package replicas finds the replicas of a service, and asks them whether they are ready.
//
// A [Set] looks up the names of a service. It does not take every answer of DNS for the truth: replicas that are certainly there stay, if an
// answer leads to none. [Ask] probes one replica, and [ParseChecks] reads what a server says about its checks.
package replicas
