// Copyright The Tripod Authors.
// SPDX-License-Identifier: Apache-2.0

// Command sign signs the checksums of a release with a key, without a network, and verifies a release.
//
//	sign -key FILE DIRECTORY                  signs checksums.txt in a directory; COSIGN_PASSWORD is the password of the key
//	sign verify -key FILE DIRECTORY           verifies the files of a release that a key signed
//	sign verify -version VERSION DIRECTORY    verifies the files of a release that the workflow of the project signed
//
// Signatures are bundles of Sigstore. `cosign verify-blob` verifies them too.
package main

import (
	"errors"
	"flag"
	"fmt"
	"os"
)

const (
	// checksumsFile is what is signed. Release has written it, in the form of sha256sum.
	checksumsFile = "checksums.txt"
	// signatureFile has the signature, as `cosign sign-blob --bundle` writes it.
	signatureFile = checksumsFile + ".sigstore.json"
)

func main() {
	do, args := runSign, os.Args[1:]
	if len(args) > 0 && args[0] == "verify" {
		do, args = runVerify, args[1:]
	}
	if err := do(args); err != nil {
		fmt.Fprintf(os.Stderr, "sign: %v\n", err)
		os.Exit(1)
	}
}

func runSign(args []string) error {
	flags := flag.NewFlagSet("sign", flag.ExitOnError)
	key := flags.String("key", "", "private ECDSA key in PEM, as `cosign generate-key-pair` makes it")
	_ = flags.Parse(args) // exits if it fails
	if *key == "" || flags.NArg() != 1 {
		return errors.New("want -key and the directory of a release")
	}
	return signChecksums(flags.Arg(0), *key)
}
