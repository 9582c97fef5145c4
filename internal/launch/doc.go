// Copyright The Tripod Authors.
// SPDX-License-Identifier: Apache-2.0

// Package launch knows what it takes to run Tripod's services as processes of this machine: where their binaries are,
// the certificates by which they trust each other, and the ports and flags by which they find each other.
package launch
