// Copyright The Tripod Authors.
// SPDX-License-Identifier: Apache-2.0

// Package published publishes a release of this checkout to a registry, and uses it as the readers of docs/release.md do, without any
// other network: cosign verifies it, helm installs the chart from the registry, and the node pulls its images there. Then it tampers
// with the registry, and expects that cosign and the node refuse. `make e2e-registry` builds the release.
//
// The registry runs in the node, and a port of 127.0.0.1 leads to it. containerd has it as a mirror, at the node's own loopback.
package published
