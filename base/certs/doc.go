// Copyright The Tripod Authors.
// SPDX-License-Identifier: Apache-2.0

// Package certs makes and renews the certificates and keys that a Tripod instance runs with.
//
// A certificate authority and the certificates it issues live in a Storage: as PEM files in one directory, or elsewhere:
//
//	store, err := certs.Open(dir)
//	ca, err := store.Authority("ca", "tripod-ca")
//	renewed, err := ca.Ensure("apiserver", certs.Leaf{CommonName: "kube-apiserver", Server: true, IPs: ips})
//
// Each call makes what is missing, renews what expires soon or no longer matches the request, and leaves everything else
// alone. So the same calls serve the first start and every later one. Rotate replaces an authority in steps, so that
// a service that is one step behind is not refused.
package certs
