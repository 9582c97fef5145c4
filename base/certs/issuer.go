// Copyright The Tripod Authors.
// SPDX-License-Identifier: Apache-2.0

package certs

import (
	"cmp"
	"crypto"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/rsa"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"errors"
	"fmt"
	"math/big"
	"time"

	"k8s.io/client-go/util/keyutil"
)

const (
	// AuthorityLifetime is how long a new certificate authority is valid.
	AuthorityLifetime = 10 * 365 * 24 * time.Hour
	// LeafLifetime is how long a certificate that an authority issues is valid.
	LeafLifetime = 365 * 24 * time.Hour
	// RenewBefore is how long before it expires a leaf certificate is renewed.
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

var (
	// errMissing means that the certificate or its key does not exist.
	errMissing = errors.New("missing")
	// errMismatch means that a certificate and the key of the same name do not belong together, as after a crash
	// between writing the two.
	errMismatch = errors.New("do not belong together")
)

// Lifetimes say how long certificates are valid. Zero values are the constants of this package.
type Lifetimes struct {
	Authority, Leaf time.Duration
	// RenewBefore is how long before its end a leaf is renewed.
	RenewBefore time.Duration
}

// Issuer makes and renews what is in a storage.
type Issuer struct {
	storage   Storage
	lifetimes Lifetimes
	now       func() time.Time
}

// Defaulted returns the lifetimes with the constants of this package in place of zero values.
func (l Lifetimes) Defaulted() Lifetimes {
	return Lifetimes{
		Authority:   cmp.Or(l.Authority, AuthorityLifetime),
		Leaf:        cmp.Or(l.Leaf, LeafLifetime),
		RenewBefore: cmp.Or(l.RenewBefore, RenewBefore),
	}
}

// NewIssuer returns an issuer for what is in the storage.
func NewIssuer(storage Storage, lifetimes Lifetimes) *Issuer {
	return &Issuer{storage: storage, lifetimes: lifetimes.Defaulted(), now: time.Now}
}

// EnsureSigningKey makes the RSA key that signs service account tokens, if it is missing, and the public key and a certificate of
// it, from which servers can read the public key, too. Nothing checks when that certificate expires.
func (i *Issuer) EnsureSigningKey(name string) error {
	pair, err := i.storage.Read(name)
	if err != nil {
		return err
	}
	if pair.Key == nil {
		if pair.Certificate != nil {
			return i.incomplete("key that signs tokens", name, i.storage.Names(name).Key)
		}
		key, err := rsa.GenerateKey(rand.Reader, serviceAccountKeyBits)
		if err != nil {
			return fmt.Errorf("cannot make key %s: %w", name, err)
		}
		if pair.Key, err = encodeKey(key); err != nil {
			return fmt.Errorf("cannot encode key %s: %w", name, err)
		}
	}
	key, err := i.decodeKey(name, pair.Key)
	if err != nil {
		return err
	}
	if pair.Public == nil {
		der, err := x509.MarshalPKIXPublicKey(key.Public())
		if err != nil {
			return fmt.Errorf("cannot encode the public key of %s: %w", name, err)
		}
		pair.Public = pem.EncodeToMemory(&pem.Block{Type: publicKeyBlock, Bytes: der})
	}
	if pair.Certificate == nil {
		if pair.Certificate, err = i.selfSign(name, &x509.Certificate{
			Subject:  pkix.Name{CommonName: name},
			NotAfter: i.now().Add(i.lifetimes.Authority),
			KeyUsage: x509.KeyUsageDigitalSignature,
		}, key); err != nil {
			return err
		}
	}
	pair.Trusted = pair.Certificate
	return i.storage.Write(name, pair)
}

// selfSign returns a certificate from the template, signed with its own key.
func (i *Issuer) selfSign(name string, template *x509.Certificate, key crypto.Signer) ([]byte, error) {
	return i.sign(name, template, template, key.Public(), key)
}

func (i *Issuer) sign(name string, template, parent *x509.Certificate, public crypto.PublicKey, key crypto.Signer) ([]byte, error) {
	serial, err := rand.Int(rand.Reader, new(big.Int).Lsh(big.NewInt(1), 127))
	if err != nil {
		return nil, fmt.Errorf("cannot make a serial number: %w", err)
	}
	template.SerialNumber = serial.Add(serial, big.NewInt(1))
	template.NotBefore = i.now().Add(-backdate)
	template.BasicConstraintsValid = true
	der, err := x509.CreateCertificate(rand.Reader, template, parent, public, key)
	if err != nil {
		return nil, fmt.Errorf("cannot issue certificate %s: %w", name, err)
	}
	return encodeCertificate(&x509.Certificate{Raw: der}), nil
}

func encodeCertificate(cert *x509.Certificate) []byte {
	return pem.EncodeToMemory(&pem.Block{Type: certificateBlock, Bytes: cert.Raw})
}

// decode returns the certificate and key of a pair, or an error that wraps errMissing or errMismatch.
func (i *Issuer) decode(name string, pair Pair) (*x509.Certificate, crypto.Signer, error) {
	if pair.Certificate == nil {
		return nil, nil, fmt.Errorf("certificate %s is %w", name, errMissing)
	}
	where := i.storage.Names(name)
	block, _ := pem.Decode(pair.Certificate)
	if block == nil || block.Type != certificateBlock {
		return nil, nil, fmt.Errorf("certificate %s is not PEM: %w", where.Certificate, i.remedy(name))
	}
	cert, err := x509.ParseCertificate(block.Bytes)
	if err != nil {
		return nil, nil, fmt.Errorf("certificate %s is damaged (%w): %w", where.Certificate, err, i.remedy(name))
	}
	if pair.Key == nil {
		return nil, nil, fmt.Errorf("key %s is %w", name, errMissing)
	}
	key, err := i.decodeKey(name, pair.Key)
	if err != nil {
		return nil, nil, err
	}
	if public, ok := key.Public().(interface{ Equal(crypto.PublicKey) bool }); !ok || !public.Equal(cert.PublicKey) {
		return nil, nil, fmt.Errorf("certificate %s and key %s %w: %w", where.Certificate, where.Key, errMismatch, i.remedy(name))
	}
	return cert, key, nil
}

func (i *Issuer) decodeKey(name string, data []byte) (crypto.Signer, error) {
	path := i.storage.Names(name).Key
	if block, _ := pem.Decode(data); block == nil {
		return nil, fmt.Errorf("key %s is not PEM: %w", path, i.remedy(name))
	}
	key, err := keyutil.ParsePrivateKeyPEM(data)
	if err != nil {
		return nil, fmt.Errorf("key %s is damaged (%w): %w", path, err, i.remedy(name))
	}
	signer, ok := key.(crypto.Signer)
	if !ok {
		return nil, fmt.Errorf("key %s cannot sign: %w", path, i.remedy(name))
	}
	return signer, nil
}

// incomplete is the error for a missing part of what must not be replaced without asking.
func (i *Issuer) incomplete(what, name, missing string) error {
	return fmt.Errorf("%s is incomplete, %s is missing: %w", what, missing, i.remedy(name))
}

// remedy advises the user how to replace what cannot be used.
func (i *Issuer) remedy(name string) error {
	return fmt.Errorf("repair it, or remove %s to have it made anew", i.storage.Names(name).All)
}

func newKey() (crypto.Signer, error) {
	return ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
}

func encodeKey(key crypto.Signer) ([]byte, error) {
	der, err := x509.MarshalPKCS8PrivateKey(key)
	if err != nil {
		return nil, err
	}
	return pem.EncodeToMemory(&pem.Block{Type: keyBlock, Bytes: der}), nil
}
