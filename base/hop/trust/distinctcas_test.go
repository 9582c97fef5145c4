// Copyright The Tripod Authors.
// SPDX-License-Identifier: Apache-2.0

package trust

import (
	"crypto/ecdsa"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"net/http"
	"os"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"k8s.io/apiserver/pkg/server/dynamiccertificates"
)

// bundleOf returns the CAs as PEM.
func bundleOf(authorities ...*authority) []byte {
	var bundle []byte
	for _, a := range authorities {
		bundle = append(bundle, certificatePEM(a.certificate.Raw)...)
	}
	return bundle
}

func TestNoServiceCAMayLeadToClients(t *testing.T) {
	service, client := newAuthority(t), newAuthority(t)
	subordinate := newAuthorityBy(t, service, newKey(t))
	renewed := newAuthorityBy(t, nil, service.key.(*ecdsa.PrivateKey))
	serviceByClient := newAuthorityBy(t, client, newKey(t))
	for name, test := range map[string]struct {
		services, clients []byte
		refused           bool
	}{
		"apart":                              {bundleOf(service), bundleOf(client), false},
		"the same":                           {bundleOf(service), bundleOf(service), true},
		"the same and another":               {bundleOf(service), bundleOf(client, service), true},
		"another certificate with the key":   {bundleOf(service), bundleOf(renewed), true},
		"a CA that the service CA issued":    {bundleOf(service), bundleOf(subordinate), true},
		"an intermediate of another root":    {bundleOf(newAuthority(t), service), bundleOf(client, subordinate), true},
		"only the issuer of the service CA":  {bundleOf(serviceByClient), bundleOf(client), false},
		"an issuer that services trust, too": {bundleOf(serviceByClient, client), bundleOf(client), true},
	} {
		file, none := writeFile(t, "clients.crt", test.clients), ""
		for flag, options := range map[string]Options{
			"client-ca-file":               {ClientCAFile: &file, RequestHeaderCAFile: &none},
			"requestheader-client-ca-file": {ClientCAFile: &none, RequestHeaderCAFile: &file},
		} {
			options.CAFile = writeFile(t, "services.crt", test.services)
			refused := slices.ContainsFunc(options.Validate(), func(err error) bool {
				return strings.Contains(err.Error(), "in --"+flag)
			})
			assert.Equal(t, test.refused, refused, "%s, --%s: refused", name, flag)
		}
	}
}

// TestReloadedCAsStayApart presents a client certificate with the name of a service to a server that reloads its files.
func TestReloadedCAsStayApart(t *testing.T) {
	service, next, client := newAuthority(t), newAuthority(t), newAuthority(t)
	subordinate := newAuthorityBy(t, service, newKey(t))
	serviceFile, clientFile := writeFile(t, "services.crt", bundleOf(service)), writeFile(t, "clients.crt", bundleOf(client))
	options := Options{CAFile: serviceFile, ClientCAFile: &clientFile}
	backends, ca, err := options.BackendAuthenticator()
	require.NoError(t, err)
	connection := func(issuer *authority) *tls.ConnectionState {
		leaf, err := x509.ParseCertificate(issuer.issue(t, pkix.Name{CommonName: Core}).Certificate[0])
		require.NoError(t, err)
		return &tls.ConnectionState{PeerCertificates: []*x509.Certificate{leaf, issuer.certificate}}
	}
	own, ofNext, ofClient, ofSubordinate := connection(service), connection(next), connection(client), connection(subordinate)
	for _, step := range []struct {
		name              string
		services, clients []byte
		own, ofNext       bool
		pool              bool
	}{
		{"apart", bundleOf(service), bundleOf(client), true, false, true},
		{"a second service CA", bundleOf(service, next), bundleOf(client), true, true, true},
		{"the service CA issued the client CA", bundleOf(service, next), bundleOf(client, subordinate), false, true, true},
		{"no service CA is left", bundleOf(service), bundleOf(client, subordinate), false, false, false},
		{"apart again", bundleOf(service), bundleOf(client), true, false, true},
		{"a file of clients with no certificate", bundleOf(next, client), []byte("none"), false, true, false},
		{"a file of services with no certificate", []byte("none"), bundleOf(client), false, true, false},
		{"clients of the service CA", bundleOf(service), bundleOf(service), false, false, false},
		{"services of the client CA", bundleOf(next, client), bundleOf(client), false, true, true},
	} {
		for file, content := range map[string][]byte{serviceFile: step.services, clientFile: step.clients} {
			require.NoError(t, os.WriteFile(file, content, 0o600))
		}
		require.NoError(t, ca.(dynamiccertificates.ControllerRunner).RunOnce(t.Context()))
		known := func(state *tls.ConnectionState) bool {
			_, ok, _ := backends.AuthenticateRequest(&http.Request{TLS: state})
			return ok
		}
		if known(own) != step.own || known(ofNext) != step.ofNext || known(ofClient) {
			t.Errorf("%s: known are own %v, of the next CA %v, of the client CA %v", step.name, known(own), known(ofNext), known(ofClient))
		}
		if clientIsService := known(ofSubordinate); clientIsService && strings.Contains(string(step.clients), string(bundleOf(subordinate))) {
			t.Errorf("%s: a client is a service", step.name)
		}
		if _, err := options.Pool(); (err == nil) != step.pool {
			t.Errorf("%s: pool: %v", step.name, err)
		}
	}
}
