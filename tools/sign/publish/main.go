// Copyright The Tripod Authors.
// SPDX-License-Identifier: Apache-2.0

// Command publish brings the images and the charts of a release into a registry, with signatures, lists of components (SBOM) and
// provenance.
//
//	publish -registry REGISTRY/PATH -key FILE DIRECTORY                      does all of it; COSIGN_PASSWORD is the password of the key
//	publish push -registry REGISTRY/PATH -version VERSION -claims DIR DIRECTORY    pushes, and writes what is to be signed
//	publish tag -registry REGISTRY/PATH -version VERSION DIRECTORY           gives tags to what the workflow of the project signed
//
// It pushes everything by its digest first. Tags come last, and only if the registry has all that belongs to a release: as long as
// anything is missing, nothing has the name of a version. The login of docker (`docker login`) serves for the registry.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"os"
	"os/signal"
	"syscall"

	"github.com/tripod-k8s/tripod/tools/sign/signing"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	err := run(ctx, os.Args[1:])
	stop()
	if err != nil {
		fmt.Fprintf(os.Stderr, "publish: %v\n", err)
		os.Exit(1)
	}
}

// flags are those of all commands.
type flags struct {
	registry, builder, key, version, identity, trustedRoot, claims string
}

func parse(args []string) (phase string, f flags, directory string, err error) {
	if len(args) > 0 && (args[0] == "push" || args[0] == "tag") {
		phase, args = args[0], args[1:]
	}
	set := flag.NewFlagSet("publish", flag.ExitOnError)
	set.StringVar(&f.registry, "registry", "", "registry and path of the images, such as registry.example.com/tripod-k8s; charts are below it")
	set.StringVar(&f.builder, "builder", defaultBuilder, "URI of what built the release, for the provenance")
	set.StringVar(&f.key, "key", "", "private key that signs, as `cosign generate-key-pair` makes it")
	set.StringVar(&f.version, "version", "", "version of the release, whose tag the workflow of the project signed")
	set.StringVar(&f.identity, "identity", "", "identity in the signer's certificate; by default the workflow at the tag of -version")
	set.StringVar(&f.trustedRoot, "trusted-root", "", "file with Sigstore's trusted root, for machines without a network")
	set.StringVar(&f.claims, "claims", "", "directory to write what is to be signed to, for cosign")
	_ = set.Parse(args) // exits if it fails
	switch {
	case f.registry == "" || set.NArg() != 1:
		err = errors.New("want -registry and the directory of a release")
	case phase == "" && f.key == "":
		err = errors.New("want -key: everything in a registry is signed")
	case phase != "" && f.version == "" && f.identity == "":
		err = errors.New("want -version or -identity")
	case phase == "push" && f.claims == "":
		err = errors.New("want -claims")
	}
	return phase, f, set.Arg(0), err
}

func run(ctx context.Context, args []string) error {
	phase, f, directory, err := parse(args)
	if err != nil {
		return err
	}
	var key signing.Key
	var by signing.Signer
	if phase == "" {
		if key, err = signing.ReadKey(f.key); err == nil {
			by, err = key.Signer()
		}
	} else {
		identity := f.identity
		if identity == "" {
			identity = signing.Workflow + "@refs/tags/" + f.version
		}
		by, err = signing.WorkflowSigner(identity, f.trustedRoot)
	}
	if err != nil {
		return err
	}
	if err := by.VerifyWholeDirectory(directory); err != nil {
		return err
	}
	work, err := os.MkdirTemp("", "publish-")
	if err != nil {
		return err
	}
	defer os.RemoveAll(work) //nolint:errcheck // a temporary directory
	items, err := read(directory, work, f.registry, f.builder)
	if err != nil {
		return err
	}
	p := newPublication(items, by, os.Stdout)
	switch phase {
	case "push":
		if err := p.push(ctx); err != nil {
			return err
		}
		return p.writeClaims(f.claims)
	case "tag":
		return p.tag(ctx)
	}
	if err := p.push(ctx); err != nil {
		return err
	}
	if err := p.sign(ctx, key); err != nil {
		return err
	}
	return p.tag(ctx)
}
