// Copyright The Tripod Authors.
// SPDX-License-Identifier: Apache-2.0

package trust

import (
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"io"
	"net/http"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/tripod-k8s/tripod/base/hop/envelope"
	"github.com/tripod-k8s/tripod/base/hop/watches"
	identityv1 "github.com/tripod-k8s/tripod/proto/identity/v1"
)

// overHTTP2 sends a request to the backend with the certificate of a client.
func (b *backend) overHTTP2(t *testing.T, client *tls.Certificate, req *http.Request) *http.Response {
	t.Helper()
	roots := x509.NewCertPool()
	roots.AddCert(b.ca.certificate)
	transport := &http.Transport{
		TLSClientConfig:   &tls.Config{RootCAs: roots, Certificates: []tls.Certificate{*client}},
		ForceAttemptHTTP2: true, ResponseHeaderTimeout: 10 * time.Second,
	}
	t.Cleanup(transport.CloseIdleConnections)
	req.URL.Scheme, req.URL.Host = "https", b.server.Listener.Addr().String()
	resp, err := transport.RoundTrip(req.WithContext(t.Context()))
	require.NoError(t, err)
	t.Cleanup(func() { _ = resp.Body.Close() })
	return resp
}

func TestOnlyTheAggregatorOpensSessionsForWatches(t *testing.T) {
	ca := newAuthority(t)
	aggregator, extensions := ca.issue(t, pkix.Name{CommonName: Aggregator}), ca.issue(t, pkix.Name{CommonName: Extensions})
	b := newBackend(t, ca, BackendOptions{})
	for name, test := range map[string]struct {
		client   *tls.Certificate
		envelope []string
		opened   bool
	}{
		"the aggregator in its own name":           {aggregator, []string{ownEnvelope}, true},
		"a request of a client":                    {aggregator, sealed(t, &identityv1.Envelope{User: admin}), false},
		"a request of a service by the aggregator": {aggregator, sealed(t, &identityv1.Envelope{Service: Extensions}), false},
		"a service":                      {extensions, nil, false},
		"a service that claims to be it": {extensions, []string{ownEnvelope}, false},
	} {
		t.Run(name, func(t *testing.T) {
			credits, give := io.Pipe()
			t.Cleanup(func() { _ = give.Close() })
			req := watches.NewRequest(credits)
			req.Header[envelope.Header] = test.envelope
			resp := b.overHTTP2(t, test.client, req)
			_, err := watches.NameOf(resp)
			assert.Equal(t, test.opened, err == nil, "the session is open: %v", err)
		})
	}
}

func TestASessionBelongsToTheCertificateThatOpenedIt(t *testing.T) {
	ca := newAuthority(t)
	one, other := ca.issue(t, pkix.Name{CommonName: Aggregator}), ca.issue(t, pkix.Name{CommonName: Aggregator})
	b := newBackend(t, ca, BackendOptions{})
	credits, give := io.Pipe()
	t.Cleanup(func() { _ = give.Close() })
	open := watches.NewRequest(credits)
	SpeakAsAggregator(open)
	name, err := watches.NameOf(b.overHTTP2(t, one, open))
	require.NoError(t, err)

	for who, test := range map[string]struct {
		client *tls.Certificate
		user   *identityv1.Envelope
		joined string
	}{
		"the aggregator that opened it":     {one, &identityv1.Envelope{User: admin}, name + "/7"},
		"another aggregator":                {other, &identityv1.Envelope{User: admin}, "?"},
		"another service":                   {ca.issue(t, pkix.Name{CommonName: Extensions}), nil, ""},
		"a certificate that is no services": {ca.issue(t, pkix.Name{CommonName: "jane"}), nil, ""},
	} {
		t.Run(who, func(t *testing.T) {
			b.seen = nil
			req, err := http.NewRequestWithContext(t.Context(), http.MethodGet, "https://backend"+ownPath, nil)
			require.NoError(t, err)
			req.Header[envelope.WatchesHeader] = []string{name + "/7"}
			if test.user != nil {
				req.Header[envelope.Header] = sealed(t, test.user)
			}
			resp := b.overHTTP2(t, test.client, req)
			assert.Equal(t, test.joined, resp.Header.Get(envelope.WatchesHeader))
			body, err := io.ReadAll(resp.Body)
			require.NoError(t, err)
			if test.joined == name+"/7" {
				assert.Empty(t, body, "the body arrives elsewhere")
			}
			if b.seen != nil {
				assert.NotContains(t, b.seen.Header, envelope.WatchesHeader, "handlers see the header")
			}
		})
	}
}
