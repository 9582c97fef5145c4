// Copyright The Tripod Authors.
// SPDX-License-Identifier: Apache-2.0

package signing

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
const passwordVariable = "COSIGN_PASSWORD"

// SignChecksums signs the checksums in directory, without a network.
func (k Key) SignChecksums(directory string) error {
	checksums, err := os.ReadFile(filepath.Join(directory, ChecksumsFile))
	if err != nil {
		return err
	}
	content, err := k.bundle(&sign.PlainData{Data: checksums})
	if err != nil {
		return err
	}
	return os.WriteFile(filepath.Join(directory, signatureFile), append(content, '\n'), 0o644)
}

// bundle signs content and returns the bundle as JSON.
func (k Key) bundle(content sign.Content) ([]byte, error) {
	bundle, err := sign.Bundle(content, k, sign.BundleOptions{})
	if err != nil {
		return nil, err
	}
	return protojson.Marshal(bundle)
}

// Key is a private key from a file.
type Key struct {
	*ecdsa.PrivateKey
	algorithm signature.AlgorithmDetails
}

var _ sign.Keypair = Key{}

// ReadKey reads a private key in PEM: PKCS #8 or SEC 1, or as `cosign generate-key-pair` writes it. The environment variable
// COSIGN_PASSWORD has its password.
func ReadKey(path string) (Key, error) {
	key, err := readKey(path)
	if err != nil {
		return Key{}, fmt.Errorf("cannot read the key %s: %w", path, err)
	}
	return key, nil
}

func readKey(path string) (Key, error) {
	content, err := os.ReadFile(path)
	if err != nil {
		return Key{}, err
	}
	private, err := cryptoutils.UnmarshalPEMToPrivateKey(content, cryptoutils.StaticPasswordFunc([]byte(os.Getenv(passwordVariable))))
	if err != nil {
		return Key{}, err
	}
	key, isECDSA := private.(*ecdsa.PrivateKey)
	if !isECDSA {
		return Key{}, fmt.Errorf("it is a %T, and only ECDSA keys sign: `cosign generate-key-pair` makes one", private)
	}
	algorithm, err := signature.GetDefaultAlgorithmDetails(key.Public())
	return Key{key, algorithm}, err
}

// GetHashAlgorithm returns the algorithm of digests.
func (k Key) GetHashAlgorithm() protocommon.HashAlgorithm { return k.algorithm.GetProtoHashType() }

// GetSigningAlgorithm returns the algorithm of signatures.
func (k Key) GetSigningAlgorithm() protocommon.PublicKeyDetails {
	return k.algorithm.GetSignatureAlgorithm()
}

// GetHint returns the SHA-256 of the public key, by which a verifier finds it among others.
func (k Key) GetHint() []byte {
	public, err := cryptoutils.MarshalPublicKeyToDER(k.Public())
	if err != nil {
		return nil // the signature names no key then
	}
	sum := sha256.Sum256(public)
	return []byte(base64.StdEncoding.EncodeToString(sum[:]))
}

// GetKeyAlgorithm returns the name of the kind of key.
func (k Key) GetKeyAlgorithm() string { return "ECDSA" }

// GetPublicKey returns the public key.
func (k Key) GetPublicKey() crypto.PublicKey { return k.Public() }

// GetPublicKeyPem returns the public key in PEM.
func (k Key) GetPublicKeyPem() (string, error) {
	public, err := cryptoutils.MarshalPublicKeyToPEM(k.Public())
	return string(public), err
}

// SignData returns the signature of data, and the digest that it is of.
func (k Key) SignData(_ context.Context, data []byte) (signed, digest []byte, err error) {
	hash := k.algorithm.GetHashType()
	sum := hash.New()
	sum.Write(data)
	digest = sum.Sum(nil)
	signed, err = k.Sign(rand.Reader, digest, hash)
	return signed, digest, err
}
