// Copyright The Tripod Authors.
// SPDX-License-Identifier: Apache-2.0

// Package connectionstest has servers that break connections at every stage of a request, and count the requests that they may have processed.
package connectionstest

import (
	"crypto/tls"
	"net"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/tripod-k8s/tripod/base/certs"
)

// PKI is a CA with the certificate of a client. It can issue certificates for servers.
type PKI struct {
	CAFile, CertFile, KeyFile string

	store *certs.Store
	ca    *certs.Authority
}

// NewPKI makes a CA in a directory of its own.
func NewPKI(t testing.TB) *PKI {
	t.Helper()
	store, err := certs.Open(t.TempDir())
	require.NoError(t, err)
	ca, err := store.Authority("service-ca", "service-ca")
	require.NoError(t, err)
	if _, err := ca.Ensure("aggregator", certs.Leaf{CommonName: "system:tripod:aggregator", Client: true}); err != nil {
		t.Fatal(err)
	}
	return &PKI{CAFile: ca.File(), CertFile: store.CertFile("aggregator"), KeyFile: store.KeyFile("aggregator"), store: store, ca: ca}
}

// ServerConfig returns the TLS configuration of a server with the given DNS name, for HTTP/2 and HTTP/1.1.
func (p *PKI) ServerConfig(t testing.TB, name string) *tls.Config {
	t.Helper()
	if _, err := p.ca.Ensure(name, certs.Leaf{CommonName: name, DNSNames: []string{name}, Server: true}); err != nil {
		t.Fatal(err)
	}
	cert, err := tls.LoadX509KeyPair(p.store.CertFile(name), p.store.KeyFile(name))
	require.NoError(t, err)
	return &tls.Config{
		Certificates: []tls.Certificate{cert},
		ClientAuth:   tls.RequireAnyClientCert,
		NextProtos:   []string{"h2", "http/1.1"},
		MinVersion:   tls.VersionTLS12,
	}
}

// ClosedAddress returns an address where nothing listens.
func ClosedAddress(t testing.TB) string {
	t.Helper()
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	defer listener.Close() //nolint:errcheck // nothing was accepted
	return listener.Addr().String()
}

// Renew issues the client's certificate again after a test has removed its files.
func (p *PKI) Renew(t testing.TB) {
	t.Helper()
	if _, err := p.ca.Ensure("aggregator", certs.Leaf{CommonName: "system:tripod:aggregator", Client: true}); err != nil {
		t.Fatal(err)
	}
}
