// Copyright The Tripod Authors.
// SPDX-License-Identifier: Apache-2.0

package replicas

import (
	"crypto/tls"
	"crypto/x509"
	"fmt"
	"net"
	"os"
	"slices"

	"github.com/tripod-k8s/tripod/base/certs"
	"github.com/tripod-k8s/tripod/base/hop/trust"
	"github.com/tripod-k8s/tripod/services/list"
)

// The services that each instance runs.
const (
	Aggregator = list.Aggregator
	Core       = list.Core
	Extensions = list.Extensions
)

// serviceCA is the name of the certificate authority by which the services trust each other.
const serviceCA = "service-ca"

// CertificateOf returns the name of the certificate of a service. That of an additional API service cannot be the name of another file.
func CertificateOf(service string) string {
	if slices.Contains(list.RequiredNames(), service) {
		return service
	}
	return "api-service-" + service
}

// EnsureTrust creates or renews the certificates by which the services trust each other.
func EnsureTrust(store *certs.Store, additional ...string) error {
	return Trust(additional...).Ensure(store)
}

// Trust returns the certificates by which the services trust each other.
func Trust(additional ...string) *certs.Set {
	set := &certs.Set{Authority: serviceCA, CommonName: "tripod-service-ca"}
	for _, name := range append(list.RequiredNames(), additional...) {
		set.Leaves = append(set.Leaves, certs.NamedLeaf{Name: CertificateOf(name), Leaf: certs.Leaf{
			CommonName: trust.UserOf(name),
			DNSNames:   []string{"localhost", trust.ServerName(name)},
			IPs:        []net.IP{net.IPv4(127, 0, 0, 1), net.IPv6loopback},
			Server:     true,
			Client:     true,
		}})
	}
	return set
}

// TrustFlags returns the flags of a service for the certificates of [EnsureTrust].
func TrustFlags(store *certs.Store, service string) []string {
	return []string{
		"--service-ca-file=" + store.CertFile(serviceCA),
		"--service-cert-file=" + store.CertFile(CertificateOf(service)),
		"--service-key-file=" + store.KeyFile(CertificateOf(service)),
	}
}

// ServingFlags returns the flags of a service that only the other services on this machine reach: at a port of 127.0.0.1, and at the
// address of its gRPC server.
func ServingFlags(store *certs.Store, service, port, grpc string) []string {
	return []string{
		"--bind-address=127.0.0.1",
		"--secure-port=" + port,
		"--grpc-bind-address=" + grpc,
		"--tls-cert-file=" + store.CertFile(CertificateOf(service)),
		"--tls-private-key-file=" + store.KeyFile(CertificateOf(service)),
	}
}

// Renew creates or renews the certificates by which the services trust each other. The services reload them by themselves.
func (s *Services) Renew() error { return EnsureTrust(s.store, s.additional...) }

// ClientTLS returns the configuration of a client that trusts the servers of a certificate authority and has a certificate. Both are names
// in the store. The client reads the certificate again for every connection.
func ClientTLS(store *certs.Store, authority, certificate string) (*tls.Config, error) {
	bundle, err := os.ReadFile(store.CertFile(authority))
	if err != nil {
		return nil, fmt.Errorf("cannot read certificate authority: %w", err)
	}
	roots := x509.NewCertPool()
	if !roots.AppendCertsFromPEM(bundle) {
		return nil, fmt.Errorf("no certificate in %s", store.CertFile(authority))
	}
	load := func(*tls.CertificateRequestInfo) (*tls.Certificate, error) {
		pair, err := tls.LoadX509KeyPair(store.CertFile(certificate), store.KeyFile(certificate))
		if err != nil {
			return nil, fmt.Errorf("cannot read certificate %s: %w", store.CertFile(certificate), err)
		}
		return &pair, nil
	}
	if _, err := load(nil); err != nil {
		return nil, err
	}
	return &tls.Config{RootCAs: roots, GetClientCertificate: load, MinVersion: tls.VersionTLS12}, nil
}
