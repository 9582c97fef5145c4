// Copyright The Tripod Authors.
// SPDX-License-Identifier: Apache-2.0

package certs

import (
	"crypto"
	"crypto/tls"
	"fmt"
	"os"
	"time"
)

// ExternalAuthority returns an authority that another program made, with its certificate and key in two files. What it issues is in this
// store. The authority itself stays as it is: ExternalAuthority neither makes nor renews it, and it has no Rotate.
func (s *Store) ExternalAuthority(certFile, keyFile string) (*Authority, error) {
	trusted, err := os.ReadFile(certFile)
	if err != nil {
		return nil, fmt.Errorf("cannot read certificate authority: %w", err)
	}
	pair, err := tls.LoadX509KeyPair(certFile, keyFile)
	if err != nil {
		return nil, fmt.Errorf("cannot use certificate authority %s with key %s: %w", certFile, keyFile, err)
	}
	signer, ok := pair.PrivateKey.(crypto.Signer)
	switch {
	case !ok:
		return nil, fmt.Errorf("key %s cannot sign", keyFile)
	case !pair.Leaf.IsCA:
		return nil, fmt.Errorf("certificate %s is not a certificate authority", certFile)
	case s.now().After(pair.Leaf.NotAfter):
		return nil, fmt.Errorf("certificate authority %s expired on %s", certFile, pair.Leaf.NotAfter.Format(time.DateOnly))
	}
	own := Pair{Certificate: encodeCertificate(pair.Leaf), Trusted: trusted}
	return &Authority{issuer: s.Issuer, name: certFile, pair: own, cert: pair.Leaf, key: signer}, nil
}
