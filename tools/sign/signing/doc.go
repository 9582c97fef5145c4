// Copyright The Tripod Authors.
// SPDX-License-Identifier: Apache-2.0

// Package signing signs and verifies releases: their checksums, and the statements about images and charts in a registry. Signatures are
// bundles of Sigstore, as cosign writes and reads them.
package signing

const (
	// ChecksumsFile is what is signed of a directory. Release has written it, in the form of sha256sum.
	ChecksumsFile = "checksums.txt"
	// signatureFile has the signature, as `cosign sign-blob --bundle` writes it.
	signatureFile = ChecksumsFile + ".sigstore.json"
)
