// Copyright The Tripod Authors.
// SPDX-License-Identifier: Apache-2.0

// Package aggregated has clients use an API server of a third party, k8s.io/sample-apiserver, that has two endpoints, of which
// one or the other is dead, dies or returns. Tests count what clients get; of times they only print what they measured.
package aggregated
