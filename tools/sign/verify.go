// Copyright The Tripod Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/sigstore/sigstore-go/pkg/bundle"
	"github.com/sigstore/sigstore-go/pkg/root"
	"github.com/sigstore/sigstore-go/pkg/verify"
	"github.com/sigstore/sigstore/pkg/cryptoutils"
	"github.com/sigstore/sigstore/pkg/signature"
)

const (
	// workflow is the workflow of the project that signs releases, and issuer is what vouches for it.
	workflow = "https://github.com/tripod-k8s/tripod/.github/workflows/release.yaml"
	issuer   = "https://token.actions.githubusercontent.com"
)

// signer says how to verify the signature of a release.
type signer struct {
	trusted root.TrustedMaterial
	options []verify.VerifierOption
	policy  verify.PolicyOption
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
	var by signer
	var err error
	switch {
	case *key != "":
		by, err = keySigner(*key)
	case *identity != "":
		by, err = workflowSigner(*identity, *trusted)
	case *version != "":
		by, err = workflowSigner(workflow+"@refs/tags/"+*version, *trusted)
	default:
		err = errors.New("want -key, -version or -identity")
	}
	if err != nil {
		return err
	}
	verified, err := by.verify(flags.Arg(0))
	for _, file := range verified {
		fmt.Println(file + ": OK")
	}
	return err
}

// keySigner returns the signer whose public key a file has.
func keySigner(path string) (signer, error) {
	content, err := os.ReadFile(path)
	if err != nil {
		return signer{}, err
	}
	key, err := cryptoutils.UnmarshalPEMToPublicKey(content)
	if err != nil {
		return signer{}, fmt.Errorf("cannot read the public key %s: %w", path, err)
	}
	algorithm, err := signature.GetDefaultAlgorithmDetails(key)
	if err != nil {
		return signer{}, fmt.Errorf("cannot use the public key %s: %w", path, err)
	}
	verifier, err := signature.LoadVerifierFromAlgorithmDetails(key, algorithm)
	if err != nil {
		return signer{}, err
	}
	return signer{
		trusted: root.NewTrustedPublicKeyMaterial(func(string) (root.TimeConstrainedVerifier, error) {
			return root.NewExpiringKey(verifier, time.Time{}, time.Time{}), nil
		}),
		options: []verify.VerifierOption{verify.WithNoObserverTimestamps()},
		policy:  verify.WithKey(),
	}, nil
}

// workflowSigner returns the signer to whom Sigstore gave a certificate for an identity. The certificate must be in a log, too.
func workflowSigner(identity, trustedRoot string) (signer, error) {
	var trusted root.TrustedMaterial
	var err error
	if trustedRoot != "" {
		trusted, err = root.NewTrustedRootFromPath(trustedRoot)
	} else {
		trusted, err = root.FetchTrustedRoot()
	}
	if err != nil {
		return signer{}, err
	}
	by, err := certifiedSigner(identity, trusted)
	by.options = append(by.options, verify.WithSignedCertificateTimestamps(1))
	return by, err
}

// certifiedSigner demands that the signature is in a transparency log, and of a time at which the certificate was valid.
func certifiedSigner(identity string, trusted root.TrustedMaterial) (signer, error) {
	certified, err := verify.NewShortCertificateIdentity(issuer, "", identity, "")
	return signer{
		trusted: trusted,
		options: []verify.VerifierOption{verify.WithTransparencyLog(1), verify.WithObserverTimestamps(1)},
		policy:  verify.WithCertificateIdentity(certified),
	}, err
}

// verify returns the files of directory whose checksums are right and signed. Nothing in the directory may be without a checksum, but files
// may be missing.
func (s signer) verify(directory string) ([]string, error) {
	checksums, err := os.ReadFile(filepath.Join(directory, checksumsFile))
	if err != nil {
		return nil, err
	}
	signed, err := bundle.LoadJSONFromPath(filepath.Join(directory, signatureFile))
	if err != nil {
		return nil, fmt.Errorf("cannot read the signature: %w", err)
	}
	if err := s.verifySignature(signed, checksums); err != nil {
		return nil, fmt.Errorf("%s is not what the signer signed: %w", checksumsFile, err)
	}
	return verifyChecksums(directory, checksums)
}

func (s signer) verifySignature(signed verify.SignedEntity, content []byte) error {
	verifier, err := verify.NewVerifier(s.trusted, s.options...)
	if err != nil {
		return err
	}
	_, err = verifier.Verify(signed, verify.NewPolicy(verify.WithArtifact(bytes.NewReader(content)), s.policy))
	return err
}

// verifyChecksums returns the files in directory if each has its checksum.
func verifyChecksums(directory string, checksums []byte) ([]string, error) {
	want := map[string]string{}
	for line := range strings.Lines(string(checksums)) {
		sum, name, ok := strings.Cut(strings.TrimSuffix(line, "\n"), "  ")
		if !ok {
			return nil, fmt.Errorf("%s has the line %q, which is no checksum", checksumsFile, line)
		}
		want[name] = sum
	}
	entries, err := os.ReadDir(directory)
	if err != nil {
		return nil, err
	}
	var verified []string
	var errs []error
	for _, entry := range entries {
		name := entry.Name()
		if name == checksumsFile || name == signatureFile {
			continue
		}
		sum, err := checksumOf(filepath.Join(directory, name))
		switch {
		case err != nil:
			errs = append(errs, err)
		case want[name] == "":
			errs = append(errs, fmt.Errorf("%s is no file of the release", name))
		case want[name] != sum:
			errs = append(errs, fmt.Errorf("%s is not the file of the release: its SHA-256 is %s, and the signer's %s", name, sum, want[name]))
		default:
			verified = append(verified, name)
		}
	}
	if len(errs) == 0 && len(verified) == 0 {
		errs = append(errs, fmt.Errorf("%s has no files of the release", directory))
	}
	return verified, errors.Join(errs...)
}

// checksumOf returns the SHA-256 of a file in hexadecimal.
func checksumOf(path string) (string, error) {
	file, err := os.Open(path)
	if err != nil {
		return "", err
	}
	defer file.Close() //nolint:errcheck // only read
	hash := sha256.New()
	if _, err := io.Copy(hash, file); err != nil {
		return "", err
	}
	return hex.EncodeToString(hash.Sum(nil)), nil
}
