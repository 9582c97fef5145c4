// Copyright The Tripod Authors.
// SPDX-License-Identifier: Apache-2.0

package pki

import (
	"crypto"
	"crypto/rand"
	"crypto/x509"
	"crypto/x509/pkix"
	"errors"
	"fmt"
	"io/fs"
	"math/big"
	"net"
	"slices"
	"time"
)

// Authority issues certificates.
type Authority struct {
	store *Store
	name  string
	cert  *x509.Certificate
	key   crypto.Signer
}

// Leaf says what a certificate issued by an authority is for.
type Leaf struct {
	// CommonName and Organizations become user name and groups where the certificate is used by a client.
	CommonName    string
	Organizations []string
	// DNSNames and IPs are what a server certificate is valid for.
	DNSNames []string
	IPs      []net.IP
	// Server and Client allow the certificate at either end of a connection.
	Server, Client bool
}

// Authority returns the certificate authority called name and makes it when it is missing. An authority is never
// renewed by itself, because everything it has issued would be void: its end is an error that says so.
func (s *Store) Authority(name, commonName string) (*Authority, error) {
	cert, key, err := s.read(name)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		if err := s.refuseHalf(name); err != nil {
			return nil, err
		}
		return s.newAuthority(name, commonName)
	case err != nil:
		return nil, err
	case !cert.IsCA:
		return nil, fmt.Errorf("certificate %s is not a certificate authority: %w", s.CertFile(name), remedy(s.dir, name))
	case s.now().After(cert.NotAfter):
		return nil, fmt.Errorf("certificate authority %s expired on %s: %w",
			s.CertFile(name), cert.NotAfter.Format(time.DateOnly), remedy(s.dir, name))
	}
	return &Authority{store: s, name: name, cert: cert, key: key}, nil
}

// refuseHalf keeps an authority from being overwritten when only its key or only its certificate is gone.
func (s *Store) refuseHalf(name string) error {
	certMissing, keyMissing := !exists(s.CertFile(name)), !exists(s.KeyFile(name))
	if certMissing == keyMissing {
		return nil
	}
	missing := s.CertFile(name)
	if keyMissing {
		missing = s.KeyFile(name)
	}
	return fmt.Errorf("certificate authority is incomplete, %s is missing: %w", missing, remedy(s.dir, name))
}

func (s *Store) newAuthority(name, commonName string) (*Authority, error) {
	key, err := newKey()
	if err != nil {
		return nil, fmt.Errorf("cannot make key %s: %w", name, err)
	}
	serial, err := newSerial()
	if err != nil {
		return nil, err
	}
	now := s.now()
	template := &x509.Certificate{
		SerialNumber:          serial,
		Subject:               pkix.Name{CommonName: commonName},
		DNSNames:              []string{commonName},
		NotBefore:             now.Add(-backdate),
		NotAfter:              now.Add(AuthorityLifetime),
		KeyUsage:              x509.KeyUsageCertSign | x509.KeyUsageDigitalSignature | x509.KeyUsageKeyEncipherment,
		BasicConstraintsValid: true,
		IsCA:                  true,
	}
	der, err := x509.CreateCertificate(rand.Reader, template, template, key.Public(), key)
	if err != nil {
		return nil, fmt.Errorf("cannot make certificate authority %s: %w", name, err)
	}
	if err := s.write(name, der, key); err != nil {
		return nil, err
	}
	cert, err := x509.ParseCertificate(der)
	if err != nil {
		return nil, fmt.Errorf("cannot make certificate authority %s: %w", name, err)
	}
	return &Authority{store: s, name: name, cert: cert, key: key}, nil
}

// File returns the path of the authority's certificate.
func (a *Authority) File() string { return a.store.CertFile(a.name) }

// Ensure makes the certificate called name, or makes it anew when it expires within RenewBefore, was not issued by
// this authority or does not cover what leaf asks. It reports whether it did.
func (a *Authority) Ensure(name string, leaf Leaf) (issued bool, err error) {
	cert, _, err := a.store.read(name)
	switch {
	case errors.Is(err, fs.ErrNotExist), errors.Is(err, errMismatch):
	case err != nil:
		return false, err
	case a.covers(cert, leaf):
		return false, nil
	}
	return true, a.issue(name, leaf)
}

// covers reports whether cert is still good for leaf.
func (a *Authority) covers(cert *x509.Certificate, leaf Leaf) bool {
	if a.store.now().Add(RenewBefore).After(cert.NotAfter) || cert.CheckSignatureFrom(a.cert) != nil {
		return false
	}
	if cert.Subject.CommonName != leaf.CommonName || !slices.Equal(cert.Subject.Organization, leaf.Organizations) {
		return false
	}
	for _, usage := range leaf.usages() {
		if !slices.Contains(cert.ExtKeyUsage, usage) {
			return false
		}
	}
	for _, name := range leaf.DNSNames {
		if !slices.Contains(cert.DNSNames, name) {
			return false
		}
	}
	for _, ip := range leaf.IPs {
		if !slices.ContainsFunc(cert.IPAddresses, ip.Equal) {
			return false
		}
	}
	return true
}

func (a *Authority) issue(name string, leaf Leaf) error {
	key, err := newKey()
	if err != nil {
		return fmt.Errorf("cannot make key %s: %w", name, err)
	}
	serial, err := newSerial()
	if err != nil {
		return err
	}
	now := a.store.now()
	end := now.Add(LeafLifetime)
	if end.After(a.cert.NotAfter) {
		end = a.cert.NotAfter
	}
	template := &x509.Certificate{
		SerialNumber:          serial,
		Subject:               pkix.Name{CommonName: leaf.CommonName, Organization: leaf.Organizations},
		DNSNames:              leaf.DNSNames,
		IPAddresses:           leaf.IPs,
		NotBefore:             now.Add(-backdate),
		NotAfter:              end,
		KeyUsage:              x509.KeyUsageDigitalSignature | x509.KeyUsageKeyEncipherment,
		ExtKeyUsage:           leaf.usages(),
		BasicConstraintsValid: true,
	}
	der, err := x509.CreateCertificate(rand.Reader, template, a.cert, key.Public(), a.key)
	if err != nil {
		return fmt.Errorf("cannot issue certificate %s: %w", name, err)
	}
	return a.store.write(name, der, key)
}

func (l Leaf) usages() []x509.ExtKeyUsage {
	var usages []x509.ExtKeyUsage
	if l.Server {
		usages = append(usages, x509.ExtKeyUsageServerAuth)
	}
	if l.Client {
		usages = append(usages, x509.ExtKeyUsageClientAuth)
	}
	return usages
}

func newSerial() (*big.Int, error) {
	serial, err := rand.Int(rand.Reader, new(big.Int).Lsh(big.NewInt(1), 127))
	if err != nil {
		return nil, fmt.Errorf("cannot make a serial number: %w", err)
	}
	return serial.Add(serial, big.NewInt(1)), nil
}
