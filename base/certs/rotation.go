// Copyright The Tripod Authors.
// SPDX-License-Identifier: Apache-2.0

package certs

import (
	"bytes"
	"crypto/x509"
	"encoding/pem"
	"errors"
	"fmt"
	"slices"
)

// Rotation is how far the replacement of an authority has come. Before each step, every program that trusts the authority must have
// seen the step before, or connections fail.
type Rotation string

// The steps of a rotation.
const (
	// NotRotating means that the authority alone is trusted.
	NotRotating Rotation = "none"
	// NewTrusted means that the new authority is trusted, too, and the old one issues.
	NewTrusted Rotation = "new-trusted"
	// NewIssues means that the new authority issues, and the old one is still trusted.
	NewIssues Rotation = "new-issues"
)

// Next returns the name of the new authority until it issues.
func Next(name string) string { return name + "-next" }

// Rotation returns how far the replacement of this authority has come.
func (a *Authority) Rotation() (Rotation, error) {
	waiting, err := a.issuer.storage.Read(Next(a.name))
	switch {
	case err != nil:
		return "", err
	case waiting.Key != nil:
		return NewTrusted, nil
	case slices.ContainsFunc(certificates(a.pair.Trusted), a.replaces):
		return NewIssues, nil
	}
	return NotRotating, nil
}

// Rotate takes the next step in replacing the authority by a new one of the same name, and returns the state after it. Ensure then
// renews what the authority issued. Rotate repeats a step that was interrupted.
func (a *Authority) Rotate() (Rotation, error) {
	if a.cert.CheckSignatureFrom(a.cert) != nil {
		return "", fmt.Errorf("certificate authority %s was issued by %q: exchange it where it comes from",
			a.issuer.storage.Names(a.name).Certificate, a.cert.Issuer)
	}
	state, err := a.Rotation()
	if err != nil {
		return "", err
	}
	switch state {
	case NotRotating:
		fresh, err := a.issuer.newAuthority(Next(a.name), a.cert.Subject.CommonName)
		if err != nil {
			return "", err
		}
		return NewTrusted, a.trust(a.cert, fresh.cert)
	case NewTrusted:
		return a.issueByNew()
	case NewIssues:
		return NotRotating, a.trust(a.cert)
	}
	return "", errors.New("unknown state of rotation " + string(state))
}

func (a *Authority) issueByNew() (Rotation, error) {
	waiting, err := a.issuer.storage.Read(Next(a.name))
	if err != nil {
		return "", err
	}
	cert, key, err := a.issuer.decode(Next(a.name), waiting)
	if err != nil {
		return "", err
	}
	if !contains(a.pair.Trusted, cert) {
		// It waits, and no client knows: the step before was interrupted.
		return NewTrusted, a.trust(a.cert, cert)
	}
	if old := a.cert; !old.Equal(cert) {
		a.pair.Certificate, a.pair.Key, a.cert, a.key = waiting.Certificate, waiting.Key, cert, key
		if err := a.trust(cert, old); err != nil {
			return "", err
		}
	}
	return NewIssues, a.issuer.storage.Remove(Next(a.name))
}

// trust makes these the trusted certificates of this authority. Certificates of other authorities stay.
func (a *Authority) trust(certs ...*x509.Certificate) error {
	var trusted bytes.Buffer
	for _, cert := range append(certs, slices.DeleteFunc(certificates(a.pair.Trusted), a.sameName)...) {
		trusted.Write(encodeCertificate(cert))
	}
	a.pair.Trusted = trusted.Bytes()
	return a.issuer.storage.Write(a.name, a.pair)
}

// sameName reports whether cert is this authority, or one before or after it.
func (a *Authority) sameName(cert *x509.Certificate) bool {
	return bytes.Equal(cert.RawSubject, a.cert.RawSubject)
}

func (a *Authority) replaces(cert *x509.Certificate) bool {
	return a.sameName(cert) && !cert.Equal(a.cert)
}

// certificates returns the readable certificates of a bundle.
func certificates(bundle []byte) []*x509.Certificate {
	var all []*x509.Certificate
	for block, rest := pem.Decode(bundle); block != nil; block, rest = pem.Decode(rest) {
		if cert, err := x509.ParseCertificate(block.Bytes); err == nil {
			all = append(all, cert)
		}
	}
	return all
}

func contains(bundle []byte, cert *x509.Certificate) bool {
	return slices.ContainsFunc(certificates(bundle), cert.Equal)
}
