// Copyright The Tripod Authors.
// SPDX-License-Identifier: Apache-2.0

package certs

import (
	"crypto"
	"crypto/x509"
	"crypto/x509/pkix"
	"errors"
	"fmt"
	"net"
	"slices"
	"time"

	"k8s.io/apimachinery/pkg/util/sets"
)

// Authority issues certificates.
type Authority struct {
	issuer *Issuer
	name   string
	pair   Pair
	cert   *x509.Certificate
	key    crypto.Signer
}

// Leaf says what a certificate issued by an authority is for.
type Leaf struct {
	// CommonName and Organizations become the user name and groups of a client.
	CommonName    string
	Organizations []string
	// DNSNames and IPs are what a server certificate is valid for.
	DNSNames []string
	IPs      []net.IP
	// Server and Client allow the certificate at either end of a connection.
	Server, Client bool
}

// Authority returns the certificate authority of a name, and makes it if it is missing. It never renews an authority, because
// that would invalidate everything it has issued. An expired authority is an error that says so. See Rotate.
func (i *Issuer) Authority(name, commonName string) (*Authority, error) {
	pair, err := i.storage.Read(name)
	if err != nil {
		return nil, err
	}
	cert, key, err := i.decode(name, pair)
	where := i.storage.Names(name)
	switch {
	case errors.Is(err, errMissing):
		// An authority that lacks only its key or only its certificate is not overwritten.
		if pair.Key != nil {
			return nil, i.incomplete("certificate authority", name, where.Certificate)
		}
		if pair.Certificate != nil {
			return nil, i.incomplete("certificate authority", name, where.Key)
		}
		return i.newAuthority(name, commonName)
	case err != nil:
		return nil, err
	case !cert.IsCA:
		return nil, fmt.Errorf("certificate %s is not a certificate authority: %w", where.Certificate, i.remedy(name))
	case i.now().After(cert.NotAfter):
		return nil, fmt.Errorf("certificate authority %s expired on %s: %w",
			where.Certificate, cert.NotAfter.Format(time.DateOnly), i.remedy(name))
	}
	a := &Authority{issuer: i, name: name, pair: pair, cert: cert, key: key}
	if !contains(pair.Trusted, cert) {
		// The user brought an authority without the certificates to trust.
		a.pair.Trusted = slices.Concat(encodeCertificate(cert), pair.Trusted)
		return a, i.storage.Write(name, a.pair)
	}
	return a, nil
}

func (i *Issuer) newAuthority(name, commonName string) (*Authority, error) {
	key, err := newKey()
	if err != nil {
		return nil, fmt.Errorf("cannot make key %s: %w", name, err)
	}
	certificate, err := i.selfSign(name, &x509.Certificate{
		Subject:  pkix.Name{CommonName: commonName},
		DNSNames: []string{commonName},
		NotAfter: i.now().Add(i.lifetimes.Authority),
		KeyUsage: x509.KeyUsageCertSign | x509.KeyUsageDigitalSignature | x509.KeyUsageKeyEncipherment,
		IsCA:     true,
	}, key)
	if err != nil {
		return nil, err
	}
	encoded, err := encodeKey(key)
	if err != nil {
		return nil, fmt.Errorf("cannot encode key %s: %w", name, err)
	}
	a := &Authority{issuer: i, name: name, pair: Pair{Certificate: certificate, Key: encoded, Trusted: certificate}}
	if a.cert, a.key, err = i.decode(name, a.pair); err != nil {
		return nil, err
	}
	return a, i.storage.Write(name, a.pair)
}

// File returns the path of the authority's certificates, if they are files.
func (a *Authority) File() string { return a.issuer.storage.Names(a.name).Certificate }

// Certificate returns the certificate with which the authority issues others.
func (a *Authority) Certificate() *x509.Certificate { return a.cert }

// Ensure makes the certificate called name, or makes it anew when it expires within RenewBefore, was not issued by
// this authority or is for anything else than leaf asks. It reports whether it did. Which authorities to trust is kept up
// to date beside it.
func (a *Authority) Ensure(name string, leaf Leaf) (issued bool, err error) {
	pair, err := a.issuer.storage.Read(name)
	if err != nil {
		return false, err
	}
	cert, _, err := a.issuer.decode(name, pair)
	switch {
	case errors.Is(err, errMissing), errors.Is(err, errMismatch):
	case err != nil:
		return false, err
	case a.covers(cert, leaf):
		pair.Trusted = a.pair.Trusted
		return false, a.issuer.storage.Write(name, pair)
	}
	return true, a.Renew(name, leaf)
}

// covers reports whether cert is still good for leaf, and for nothing else.
func (a *Authority) covers(cert *x509.Certificate, leaf Leaf) bool {
	if a.issuer.now().Add(a.issuer.lifetimes.RenewBefore).After(cert.NotAfter) || cert.CheckSignatureFrom(a.cert) != nil {
		return false
	}
	addresses := func(ips []net.IP) sets.Set[string] {
		all := sets.New[string]()
		for _, ip := range ips {
			all.Insert(ip.String())
		}
		return all
	}
	return cert.Subject.CommonName == leaf.CommonName &&
		sets.New(cert.Subject.Organization...).Equal(sets.New(leaf.Organizations...)) &&
		sets.New(cert.ExtKeyUsage...).Equal(sets.New(leaf.usages()...)) &&
		sets.New(cert.DNSNames...).Equal(sets.New(leaf.DNSNames...)) &&
		addresses(cert.IPAddresses).Equal(addresses(leaf.IPs))
}

// Renew replaces the certificate of a name, whether it is due or not.
func (a *Authority) Renew(name string, leaf Leaf) error {
	key, err := newKey()
	if err != nil {
		return fmt.Errorf("cannot make key %s: %w", name, err)
	}
	end := a.issuer.now().Add(a.issuer.lifetimes.Leaf)
	if end.After(a.cert.NotAfter) {
		end = a.cert.NotAfter
	}
	pair := Pair{Trusted: a.pair.Trusted}
	if pair.Key, err = encodeKey(key); err != nil {
		return fmt.Errorf("cannot encode key %s: %w", name, err)
	}
	if pair.Certificate, err = a.issuer.sign(name, &x509.Certificate{
		Subject:     pkix.Name{CommonName: leaf.CommonName, Organization: leaf.Organizations},
		DNSNames:    leaf.DNSNames,
		IPAddresses: leaf.IPs,
		NotAfter:    end,
		KeyUsage:    x509.KeyUsageDigitalSignature | x509.KeyUsageKeyEncipherment,
		ExtKeyUsage: leaf.usages(),
	}, a.cert, key.Public(), a.key); err != nil {
		return err
	}
	return a.issuer.storage.Write(name, pair)
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
