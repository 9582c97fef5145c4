// Copyright The Tripod Authors.
// SPDX-License-Identifier: Apache-2.0

package pki

import (
	"crypto"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/rsa"
	"crypto/x509"
	"encoding/pem"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"time"

	"github.com/tripod-k8s/tripod/internal/atomicfile"
)

const (
	// AuthorityLifetime is how long a new certificate authority is valid.
	AuthorityLifetime = 10 * 365 * 24 * time.Hour
	// LeafLifetime is how long a certificate issued by an authority is valid.
	LeafLifetime = 365 * 24 * time.Hour
	// RenewBefore is how long before its end a leaf certificate is renewed.
	RenewBefore = 30 * 24 * time.Hour

	// backdate allows for clocks of clients that run a little behind.
	backdate = 5 * time.Minute
	// serviceAccountKeyBits is the size that other tools that set up clusters use for the key that signs
	// service account tokens; OIDC relying parties expect RS256.
	serviceAccountKeyBits = 2048

	certificateBlock = "CERTIFICATE"
	keyBlock         = "PRIVATE KEY"
	publicKeyBlock   = "PUBLIC KEY"
)

// errMismatch says that a certificate and a key with the same name do not belong together, as after a crash
// between writing one and the other.
var errMismatch = errors.New("do not belong together")

// Store is a directory of certificates and keys, NAME.crt and NAME.key.
type Store struct {
	dir string
	now func() time.Time
}

// Open returns the store in dir and makes the directory, readable by its owner only, when it is missing.
func Open(dir string) (*Store, error) {
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return nil, fmt.Errorf("cannot make the directory for certificates: %w", err)
	}
	return &Store{dir: dir, now: time.Now}, nil
}

// CertFile returns the path of the certificate called name.
func (s *Store) CertFile(name string) string { return filepath.Join(s.dir, name+".crt") }

// KeyFile returns the path of the private key called name.
func (s *Store) KeyFile(name string) string { return filepath.Join(s.dir, name+".key") }

// PublicKeyFile returns the path of the public key called name.
func (s *Store) PublicKeyFile(name string) string { return filepath.Join(s.dir, name+".pub") }

// EnsureSigningKey makes the RSA key pair NAME.key and NAME.pub that signs service account tokens, if it is missing.
func (s *Store) EnsureSigningKey(name string) error {
	key, err := s.readKey(name)
	if errors.Is(err, fs.ErrNotExist) {
		if key, err = rsa.GenerateKey(rand.Reader, serviceAccountKeyBits); err != nil {
			return fmt.Errorf("cannot make key %s: %w", name, err)
		}
		err = s.writeKey(name, key)
	}
	if err != nil {
		return err
	}
	if _, err := os.Stat(s.PublicKeyFile(name)); err == nil {
		return nil
	}
	der, err := x509.MarshalPKIXPublicKey(key.Public())
	if err != nil {
		return fmt.Errorf("cannot encode the public key of %s: %w", name, err)
	}
	return atomicfile.Write(s.PublicKeyFile(name), pem.EncodeToMemory(&pem.Block{Type: publicKeyBlock, Bytes: der}))
}

// read returns the certificate and key called name, or an error that wraps fs.ErrNotExist when one of them is missing.
func (s *Store) read(name string) (*x509.Certificate, crypto.Signer, error) {
	path := s.CertFile(name)
	data, err := os.ReadFile(path)
	if err != nil {
		return nil, nil, fmt.Errorf("cannot read certificate: %w", err)
	}
	block, _ := pem.Decode(data)
	if block == nil || block.Type != certificateBlock {
		return nil, nil, fmt.Errorf("certificate %s is not PEM: %w", path, remedy(s.dir, name))
	}
	cert, err := x509.ParseCertificate(block.Bytes)
	if err != nil {
		return nil, nil, fmt.Errorf("certificate %s is damaged (%w): %w", path, err, remedy(s.dir, name))
	}
	key, err := s.readKey(name)
	if err != nil {
		return nil, nil, err
	}
	if public, ok := key.Public().(interface{ Equal(crypto.PublicKey) bool }); !ok || !public.Equal(cert.PublicKey) {
		return nil, nil, fmt.Errorf("certificate %s and key %s %w: %w", path, s.KeyFile(name), errMismatch, remedy(s.dir, name))
	}
	return cert, key, nil
}

func (s *Store) readKey(name string) (crypto.Signer, error) {
	path := s.KeyFile(name)
	data, err := os.ReadFile(path)
	if err != nil {
		return nil, fmt.Errorf("cannot read key: %w", err)
	}
	block, _ := pem.Decode(data)
	if block == nil {
		return nil, fmt.Errorf("key %s is not PEM: %w", path, remedy(s.dir, name))
	}
	key, err := x509.ParsePKCS8PrivateKey(block.Bytes)
	if err != nil {
		return nil, fmt.Errorf("key %s is damaged (%w): %w", path, err, remedy(s.dir, name))
	}
	signer, ok := key.(crypto.Signer)
	if !ok {
		return nil, fmt.Errorf("key %s cannot sign: %w", path, remedy(s.dir, name))
	}
	return signer, nil
}

func (s *Store) write(name string, der []byte, key crypto.Signer) error {
	if err := s.writeKey(name, key); err != nil {
		return err
	}
	return atomicfile.Write(s.CertFile(name), pem.EncodeToMemory(&pem.Block{Type: certificateBlock, Bytes: der}))
}

func (s *Store) writeKey(name string, key crypto.Signer) error {
	der, err := x509.MarshalPKCS8PrivateKey(key)
	if err != nil {
		return fmt.Errorf("cannot encode key %s: %w", name, err)
	}
	return atomicfile.Write(s.KeyFile(name), pem.EncodeToMemory(&pem.Block{Type: keyBlock, Bytes: der}))
}

// remedy tells a user how to get rid of a file that cannot be used.
func remedy(dir, name string) error {
	return fmt.Errorf("repair it, or remove %s to have it made anew", filepath.Join(dir, name+".*"))
}

// exists reports whether there is something at path, readable or not.
func exists(path string) bool {
	_, err := os.Lstat(path)
	return err == nil
}

func newKey() (crypto.Signer, error) {
	return ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
}
