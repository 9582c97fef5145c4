// Copyright The Tripod Authors.
// SPDX-License-Identifier: Apache-2.0

// Package trusttest has senders for tests of what services may do.
package trusttest

import (
	"crypto/tls"
	"crypto/x509"
	"net/http"
	"testing"

	"github.com/stretchr/testify/require"

	"k8s.io/apiserver/pkg/authentication/user"

	"github.com/tripod-k8s/tripod/base/certs"
	"github.com/tripod-k8s/tripod/base/hop/trust"
)

// Backend returns the user that a certificate of a backend gives.
func Backend(t *testing.T, name string) user.Info {
	t.Helper()
	store, err := certs.Open(t.TempDir())
	require.NoError(t, err)
	ca, err := store.Authority("service-ca", "service-ca")
	require.NoError(t, err)
	if _, err := ca.Ensure("service", certs.Leaf{CommonName: name, Client: true}); err != nil {
		t.Fatal(err)
	}
	pair, err := tls.LoadX509KeyPair(store.CertFile("service"), store.KeyFile("service"))
	require.NoError(t, err)
	backends, _, err := (&trust.Options{CAFile: ca.File()}).BackendAuthenticator()
	require.NoError(t, err)
	response, ok, err := backends.AuthenticateRequest(&http.Request{TLS: &tls.ConnectionState{PeerCertificates: []*x509.Certificate{pair.Leaf}}})
	if err != nil || !ok {
		t.Fatal(ok, err)
	}
	return response.User
}
