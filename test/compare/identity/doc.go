// Copyright The Tripod Authors.
// SPDX-License-Identifier: Apache-2.0

// Package identity tests that every service sees the sender of a request as kube-apiserver would, and that what is
// revoked is void everywhere: with real processes, an OpenID Connect issuer and a token webhook of its own, several
// replicas, a slow one, and none.
//
// With TEST_AGAINST=stock a second kube-apiserver takes the place of Tripod; tests about its processes are skipped.
package identity
