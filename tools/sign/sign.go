// Copyright The Tripod Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"crypto"
	"crypto/ecdsa"
	"crypto/rand"
	"crypto/sha256"
	"encoding/base64"
	"fmt"
	"os"
	"path/filepath"

	protocommon "github.com/sigstore/protobuf-specs/gen/pb-go/common/v1"
	"github.com/sigstore/sigstore-go/pkg/sign"
	"github.com/sigstore/sigstore/pkg/cryptoutils"
	"github.com/sigstore/sigstore/pkg/signature"
	"google.golang.org/protobuf/encoding/protojson"
)

// passwordVariable is the environment variable with the password of the key. cosign reads the same one.
const passwordVariable = "COSIGN_PASSWORD" //nolint:gosec // a name, no password

// signChecksums signs the checksums in directory with the key in a file, without a network.
func signChecksums(directory, keyFile string) error {
	key, err := readKey(keyFile)
	if err != nil {
		return fmt.Errorf("cannot read the key %s: %w", keyFile, err)
	}
	checksums, err := os.ReadFile(filepath.Join(directory, checksumsFile))
	if err != nil {
		return err
	}
	bundle, err := sign.Bundle(&sign.PlainData{Data: checksums}, key, sign.BundleOptions{})
	if err != nil {
		return err
	}
	content, err := protojson.Marshal(bundle)
	if err != nil {
		return err
	}
	return os.WriteFile(filepath.Join(directory, signatureFile), append(content, '\n'), 0o644) //nolint:gosec // public
}

// fileKey is a private key from a file.
type fileKey struct {
	*ecdsa.PrivateKey
	algorithm signature.AlgorithmDetails
}

var _ sign.Keypair = fileKey{}

// readKey reads a private key in PEM: PKCS #8 or SEC 1, or as `cosign generate-key-pair` writes it.
func readKey(path string) (fileKey, error) {
	content, err := os.ReadFile(path)
	if err != nil {
		return fileKey{}, err
	}
	private, err := cryptoutils.UnmarshalPEMToPrivateKey(content, cryptoutils.StaticPasswordFunc([]byte(os.Getenv(passwordVariable))))
	if err != nil {
		return fileKey{}, err
	}
	key, isECDSA := private.(*ecdsa.PrivateKey)
	if !isECDSA {
		return fileKey{}, fmt.Errorf("it is a %T, and only ECDSA keys sign: `cosign generate-key-pair` makes one", private)
	}
	algorithm, err := signature.GetDefaultAlgorithmDetails(key.Public())
	return fileKey{key, algorithm}, err
}

// GetHashAlgorithm returns the algorithm of digests.
func (k fileKey) GetHashAlgorithm() protocommon.HashAlgorithm { return k.algorithm.GetProtoHashType() }

// GetSigningAlgorithm returns the algorithm of signatures.
func (k fileKey) GetSigningAlgorithm() protocommon.PublicKeyDetails {
	return k.algorithm.GetSignatureAlgorithm()
}

// GetHint returns the SHA-256 of the public key, by which a verifier finds it among others.
func (k fileKey) GetHint() []byte {
	public, err := cryptoutils.MarshalPublicKeyToDER(k.Public())
	if err != nil {
		return nil // the signature names no key then
	}
	sum := sha256.Sum256(public)
	return []byte(base64.StdEncoding.EncodeToString(sum[:]))
}

// GetKeyAlgorithm returns the name of the kind of key.
func (k fileKey) GetKeyAlgorithm() string { return "ECDSA" }

// GetPublicKey returns the public key.
func (k fileKey) GetPublicKey() crypto.PublicKey { return k.Public() }

// GetPublicKeyPem returns the public key in PEM.
func (k fileKey) GetPublicKeyPem() (string, error) {
	public, err := cryptoutils.MarshalPublicKeyToPEM(k.Public())
	return string(public), err
}

// SignData returns the signature of data, and the digest that it is of.
func (k fileKey) SignData(_ context.Context, data []byte) (signed, digest []byte, err error) {
	hash := k.algorithm.GetHashType()
	sum := hash.New()
	sum.Write(data) //nolint:errcheck // a hash returns no error
	digest = sum.Sum(nil)
	signed, err = k.Sign(rand.Reader, digest, hash)
	return signed, digest, err
}
