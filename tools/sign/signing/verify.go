// Copyright The Tripod Authors.
// SPDX-License-Identifier: Apache-2.0

package signing

import (
	"bytes"
	"crypto"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/sigstore/sigstore-go/pkg/bundle"
	"github.com/sigstore/sigstore-go/pkg/root"
	"github.com/sigstore/sigstore-go/pkg/verify"
	"github.com/sigstore/sigstore/pkg/cryptoutils"
	"github.com/sigstore/sigstore/pkg/signature"
)

const (
	// Workflow is the workflow of the project that signs releases, and issuer is what vouches for it.
	Workflow = "https://github.com/tripod-k8s/tripod/.github/workflows/release.yaml"
	issuer   = "https://token.actions.githubusercontent.com"
)

// Signer says how to verify signatures of a release.
type Signer struct {
	trusted root.TrustedMaterial
	options []verify.VerifierOption
	policy  verify.PolicyOption
}

// KeySigner returns the signer whose public key a file has.
func KeySigner(path string) (Signer, error) {
	content, err := os.ReadFile(path)
	if err != nil {
		return Signer{}, err
	}
	key, err := cryptoutils.UnmarshalPEMToPublicKey(content)
	if err != nil {
		return Signer{}, fmt.Errorf("cannot read the public key %s: %w", path, err)
	}
	by, err := signerWith(key)
	if err != nil {
		return Signer{}, fmt.Errorf("cannot use the public key %s: %w", path, err)
	}
	return by, nil
}

// Signer returns the signer that has the key.
func (k Key) Signer() (Signer, error) { return signerWith(k.Public()) }

func signerWith(key crypto.PublicKey) (Signer, error) {
	algorithm, err := signature.GetDefaultAlgorithmDetails(key)
	if err != nil {
		return Signer{}, err
	}
	verifier, err := signature.LoadVerifierFromAlgorithmDetails(key, algorithm)
	if err != nil {
		return Signer{}, err
	}
	return Signer{
		trusted: root.NewTrustedPublicKeyMaterial(func(string) (root.TimeConstrainedVerifier, error) {
			return root.NewExpiringKey(verifier, time.Time{}, time.Time{}), nil
		}),
		options: []verify.VerifierOption{verify.WithNoObserverTimestamps()},
		policy:  verify.WithKey(),
	}, nil
}

// WorkflowSigner returns the signer to whom Sigstore gave a certificate for an identity. The certificate must be in a log, too.
func WorkflowSigner(identity, trustedRoot string) (Signer, error) {
	var trusted root.TrustedMaterial
	var err error
	if trustedRoot != "" {
		trusted, err = root.NewTrustedRootFromPath(trustedRoot)
	} else {
		trusted, err = root.FetchTrustedRoot()
	}
	if err != nil {
		return Signer{}, err
	}
	by, err := certifiedSigner(identity, trusted)
	by.options = append(by.options, verify.WithSignedCertificateTimestamps(1))
	return by, err
}

// certifiedSigner demands that the signature is in a transparency log, and of a time at which the certificate was valid.
func certifiedSigner(identity string, trusted root.TrustedMaterial) (Signer, error) {
	certified, err := verify.NewShortCertificateIdentity(issuer, "", identity, "")
	return Signer{
		trusted: trusted,
		options: []verify.VerifierOption{verify.WithTransparencyLog(1), verify.WithObserverTimestamps(1)},
		policy:  verify.WithCertificateIdentity(certified),
	}, err
}

// VerifyDirectory returns the files of directory whose checksums are right and signed. Nothing in the directory may be without a
// checksum, but files may be missing.
func (s Signer) VerifyDirectory(directory string) ([]string, error) {
	want, err := s.signedChecksums(directory)
	if err != nil {
		return nil, err
	}
	return verifyFiles(directory, want)
}

// VerifyWholeDirectory is VerifyDirectory where no file may be missing: what is made of a part of a release looks like a release.
func (s Signer) VerifyWholeDirectory(directory string) error {
	want, err := s.signedChecksums(directory)
	if err != nil {
		return err
	}
	verified, err := verifyFiles(directory, want)
	if err != nil {
		return err
	}
	for _, name := range verified {
		delete(want, name)
	}
	if len(want) > 0 {
		missing := slices.Sorted(maps.Keys(want))
		return fmt.Errorf("%s has not all files of the release: %s", directory, strings.Join(missing, ", "))
	}
	return nil
}

// signedChecksums returns the SHA-256 of each file of the release, as the signer signed them.
func (s Signer) signedChecksums(directory string) (map[string]string, error) {
	checksums, err := os.ReadFile(filepath.Join(directory, ChecksumsFile))
	if err != nil {
		return nil, err
	}
	signed, err := bundle.LoadJSONFromPath(filepath.Join(directory, signatureFile))
	if err != nil {
		return nil, fmt.Errorf("cannot read the signature: %w", err)
	}
	if err := s.verifySignature(signed, checksums); err != nil {
		return nil, fmt.Errorf("%s is not what the signer signed: %w", ChecksumsFile, err)
	}
	want := map[string]string{}
	for line := range strings.Lines(string(checksums)) {
		sum, name, ok := strings.Cut(strings.TrimSuffix(line, "\n"), "  ")
		if !ok {
			return nil, fmt.Errorf("%s has the line %q, which is no checksum", ChecksumsFile, line)
		}
		want[name] = sum
	}
	return want, nil
}

func (s Signer) verifySignature(signed verify.SignedEntity, content []byte) error {
	verifier, err := verify.NewVerifier(s.trusted, s.options...)
	if err != nil {
		return err
	}
	_, err = verifier.Verify(signed, verify.NewPolicy(verify.WithArtifact(bytes.NewReader(content)), s.policy))
	return err
}

// verifyFiles returns the files in directory if each has its checksum.
func verifyFiles(directory string, want map[string]string) ([]string, error) {
	entries, err := os.ReadDir(directory)
	if err != nil {
		return nil, err
	}
	var verified []string
	var errs []error
	for _, entry := range entries {
		name := entry.Name()
		if name == ChecksumsFile || name == signatureFile {
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
