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

	"github.com/tripod-k8s/tripod/tools/sign/signing"
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
	file := flags.String("key", "", "private ECDSA key in PEM, as `cosign generate-key-pair` makes it")
	_ = flags.Parse(args) // exits if it fails
	if *file == "" || flags.NArg() != 1 {
		return errors.New("want -key and the directory of a release")
	}
	key, err := signing.ReadKey(*file)
	if err != nil {
		return err
	}
	return key.SignChecksums(flags.Arg(0))
}

func runVerify(args []string) error {
	flags := flag.NewFlagSet("sign verify", flag.ExitOnError)
	key := flags.String("key", "", "public key of the signer; without one, the workflow of the project must have signed")
	version := flags.String("version", "", "version of the release, whose tag the workflow must have signed")
	identity := flags.String("identity", "", "identity in the signer's certificate; by default the project's workflow at the tag of -version")
	trusted := flags.String("trusted-root", "", "file with Sigstore's trusted root, for machines without a network")
	_ = flags.Parse(args) // exits if it fails
	if flags.NArg() != 1 {
		return errors.New("want one directory with a release")
	}
	var by signing.Signer
	var err error
	switch {
	case *key != "":
		by, err = signing.KeySigner(*key)
	case *identity != "":
		by, err = signing.WorkflowSigner(*identity, *trusted)
	case *version != "":
		by, err = signing.WorkflowSigner(signing.Workflow+"@refs/tags/"+*version, *trusted)
	default:
		err = errors.New("want -key, -version or -identity")
	}
	if err != nil {
		return err
	}
	verified, err := by.VerifyDirectory(flags.Arg(0))
	for _, file := range verified {
		fmt.Println(file + ": OK")
	}
	return err
}
