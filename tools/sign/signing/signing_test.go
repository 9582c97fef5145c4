// Copyright The Tripod Authors.
// SPDX-License-Identifier: Apache-2.0

package signing

import (
	"crypto/elliptic"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/sigstore/sigstore-go/pkg/testing/ca"
	"github.com/sigstore/sigstore/pkg/cryptoutils"
)

// newKey writes a key pair as cosign does, and returns both files. Without a password, the private key is not encrypted.
func newKey(t *testing.T, curve elliptic.Curve, password []byte) (private, public string) {
	t.Helper()
	privatePEM, publicPEM, err := cryptoutils.GeneratePEMEncodedECDSAKeyPair(curve, cryptoutils.StaticPasswordFunc(password))
	if err != nil {
		t.Fatal(err)
	}
	dir := t.TempDir()
	private, public = filepath.Join(dir, "cosign.key"), filepath.Join(dir, "cosign.pub")
	if err := errors.Join(os.WriteFile(private, privatePEM, 0o600), os.WriteFile(public, publicPEM, 0o600)); err != nil {
		t.Fatal(err)
	}
	return private, public
}

// smallRelease returns a directory with two files and their checksums.
func smallRelease(t *testing.T) string {
	t.Helper()
	dir := t.TempDir()
	for name, content := range map[string]string{"tripod-0.1.0.tgz": "a chart", "tripod-v0.1.0.oci.tar": "an image"} {
		replaceFile(t, dir, name, content)
	}
	writeChecksums(t, dir)
	return dir
}

// writeChecksums writes the checksums of the files in dir, as a release has them.
func writeChecksums(t *testing.T, dir string) {
	t.Helper()
	var checksums strings.Builder
	for _, name := range []string{"tripod-0.1.0.tgz", "tripod-v0.1.0.oci.tar"} {
		sum, err := checksumOf(filepath.Join(dir, name))
		if err != nil {
			t.Fatal(err)
		}
		fmt.Fprintf(&checksums, "%s  %s\n", sum, name)
	}
	replaceFile(t, dir, ChecksumsFile, checksums.String())
}

func replaceFile(t *testing.T, dir, name, content string) {
	t.Helper()
	if err := os.WriteFile(filepath.Join(dir, name), []byte(content), 0o600); err != nil {
		t.Fatal(err)
	}
}

// signWith signs the checksums in dir with the key in a file.
func signWith(dir, keyFile string) error {
	key, err := ReadKey(keyFile)
	if err != nil {
		return err
	}
	return key.SignChecksums(dir)
}

func signedRelease(t *testing.T, private string) string {
	t.Helper()
	dir := smallRelease(t)
	if err := signWith(dir, private); err != nil {
		t.Fatal(err)
	}
	return dir
}

// verifyWith verifies a release with a public key.
func verifyWith(t *testing.T, public, dir string) ([]string, error) {
	t.Helper()
	by, err := KeySigner(public)
	if err != nil {
		t.Fatal(err)
	}
	return by.VerifyDirectory(dir)
}

func TestASignedReleaseIsVerified(t *testing.T) {
	t.Setenv(passwordVariable, "of the key")
	for name, key := range map[string]struct {
		curve    elliptic.Curve
		password []byte
	}{
		"P-256": {curve: elliptic.P256()}, "P-384": {curve: elliptic.P384()}, "with a password": {elliptic.P256(), []byte("of the key")},
	} {
		t.Run(name, func(t *testing.T) {
			private, public := newKey(t, key.curve, key.password)
			verified, err := verifyWith(t, public, signedRelease(t, private))
			if want := []string{"tripod-0.1.0.tgz", "tripod-v0.1.0.oci.tar"}; err != nil || !slices.Equal(verified, want) {
				t.Errorf("verified %q (%v), want %q", verified, err, want)
			}
		})
	}
}

func TestSomeFilesOfAReleaseAreVerified(t *testing.T) {
	private, public := newKey(t, elliptic.P256(), nil)
	dir := signedRelease(t, private)
	if err := os.Remove(filepath.Join(dir, "tripod-v0.1.0.oci.tar")); err != nil {
		t.Fatal(err)
	}
	if verified, err := verifyWith(t, public, dir); err != nil || !slices.Equal(verified, []string{"tripod-0.1.0.tgz"}) {
		t.Errorf("verified %q (%v), want the chart", verified, err)
	}
}

func TestATamperedReleaseIsNotVerified(t *testing.T) {
	private, public := newKey(t, elliptic.P256(), nil)
	other, _ := newKey(t, elliptic.P256(), nil)
	for name, test := range map[string]struct {
		tamper func(t *testing.T, dir string)
		want   string
	}{
		"a file was replaced": {func(t *testing.T, dir string) {
			replaceFile(t, dir, "tripod-0.1.0.tgz", "another chart")
		}, "tripod-0.1.0.tgz is not the file of the release"},
		"a file and its checksum were replaced": {func(t *testing.T, dir string) {
			replaceFile(t, dir, "tripod-0.1.0.tgz", "another chart")
			writeChecksums(t, dir)
		}, "checksums.txt is not what the signer signed"},
		"a file, its checksum and the signature were replaced": {func(t *testing.T, dir string) {
			replaceFile(t, dir, "tripod-0.1.0.tgz", "another chart")
			writeChecksums(t, dir)
			if err := signWith(dir, other); err != nil {
				t.Fatal(err)
			}
		}, "checksums.txt is not what the signer signed"},
		"a file was added": {func(t *testing.T, dir string) {
			replaceFile(t, dir, "tripod-v0.1.0-linux-amd64.tar.gz", "programs")
		}, "tripod-v0.1.0-linux-amd64.tar.gz is no file of the release"},
		"a line was added to the checksums": {func(t *testing.T, dir string) {
			checksums, err := os.ReadFile(filepath.Join(dir, ChecksumsFile))
			if err != nil {
				t.Fatal(err)
			}
			replaceFile(t, dir, ChecksumsFile, string(checksums)+strings.Repeat("0", 64)+"  more\n")
		}, "checksums.txt is not what the signer signed"},
		"the signature was removed": {func(t *testing.T, dir string) {
			if err := os.Remove(filepath.Join(dir, signatureFile)); err != nil {
				t.Fatal(err)
			}
		}, "cannot read the signature"},
		"the signature was emptied": {func(t *testing.T, dir string) { replaceFile(t, dir, signatureFile, "{}") }, "cannot read the signature"},
		"all files were removed": {func(t *testing.T, dir string) {
			if err := errors.Join(os.Remove(filepath.Join(dir, "tripod-0.1.0.tgz")), os.Remove(filepath.Join(dir, "tripod-v0.1.0.oci.tar"))); err != nil {
				t.Fatal(err)
			}
		}, "has no files of the release"},
	} {
		t.Run(name, func(t *testing.T) {
			dir := signedRelease(t, private)
			test.tamper(t, dir)
			if _, err := verifyWith(t, public, dir); err == nil || !strings.Contains(err.Error(), test.want) {
				t.Errorf("got the error %v, want %q", err, test.want)
			}
		})
	}
}

func TestOnlyTheWorkflowOfTheProjectSigns(t *testing.T) {
	sigstore, err := ca.NewVirtualSigstore()
	if err != nil {
		t.Fatal(err)
	}
	other, err := ca.NewVirtualSigstore()
	if err != nil {
		t.Fatal(err)
	}
	checksums := []byte("0000  tripod-0.1.0.tgz\n")
	by, err := certifiedSigner(Workflow+"@refs/tags/v0.1.0", sigstore)
	if err != nil {
		t.Fatal(err)
	}
	for name, test := range map[string]struct {
		sigstore         *ca.VirtualSigstore
		identity, issuer string
		content          []byte
		want             bool
	}{
		"the tag of the release": {sigstore, Workflow + "@refs/tags/v0.1.0", issuer, checksums, true},
		"other checksums":        {sigstore, Workflow + "@refs/tags/v0.1.0", issuer, []byte("1111  tripod-0.1.0.tgz\n"), false},
		"another tag":            {sigstore, Workflow + "@refs/tags/v0.1.0-rc.1", issuer, checksums, false},
		"a branch":               {sigstore, Workflow + "@refs/heads/v0.1.0", issuer, checksums, false},
		"another workflow":       {sigstore, strings.Replace(Workflow, "release.yaml", "ci.yaml", 1) + "@refs/tags/v0.1.0", issuer, checksums, false},
		"another repository":     {sigstore, strings.Replace(Workflow, "tripod-k8s", "tripod-k8", 1) + "@refs/tags/v0.1.0", issuer, checksums, false},
		"another issuer":         {sigstore, Workflow + "@refs/tags/v0.1.0", "https://issuer.example.com", checksums, false},
		"another Sigstore":       {other, Workflow + "@refs/tags/v0.1.0", issuer, checksums, false},
	} {
		t.Run(name, func(t *testing.T) {
			signed, err := test.sigstore.Sign(test.identity, test.issuer, test.content)
			if err != nil {
				t.Fatal(err)
			}
			if err := by.verifySignature(signed, checksums); (err == nil) != test.want {
				t.Errorf("got the error %v, want valid: %t", err, test.want)
			}
		})
	}
}

func TestAKeyMustBeOfTheKindThatCosignMakes(t *testing.T) {
	privatePEM, _, err := cryptoutils.GeneratePEMEncodedRSAKeyPair(2048, nil)
	if err != nil {
		t.Fatal(err)
	}
	file := filepath.Join(t.TempDir(), "rsa.key")
	if err := os.WriteFile(file, privatePEM, 0o600); err != nil {
		t.Fatal(err)
	}
	if err := signWith(smallRelease(t), file); err == nil || !strings.Contains(err.Error(), "only ECDSA keys sign") {
		t.Errorf("got the error %v, want one that names the kind of key", err)
	}
}
