// Copyright The Tripod Authors.
// SPDX-License-Identifier: Apache-2.0

package servicetrust

import (
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"k8s.io/apiserver/pkg/authentication/user"
)

func TestAuthenticator(t *testing.T) {
	service, other := newAuthority(t), newAuthority(t)
	admin := http.Header{
		"X-Remote-User":            {"admin"},
		"X-Remote-Uid":             {"42"},
		"X-Remote-Group":           {"system:masters", "other"},
		"X-Remote-Extra-Acme%2fId": {"a", "b"},
	}
	tests := []struct {
		name    string
		client  *tls.Certificate
		headers http.Header
		// want is nil when the authenticator must have no answer.
		want user.Info
	}{
		{
			name:    "the aggregator names a user, who is taken verbatim",
			client:  service.issue(t, pkix.Name{CommonName: Aggregator}),
			headers: admin,
			want: &user.DefaultInfo{
				Name: "admin", UID: "42", Groups: []string{"system:masters", "other"},
				Extra: map[string][]string{"acme/id": {"a", "b"}},
			},
		},
		{
			name:    "the aggregator names a user without groups, who gets none",
			client:  service.issue(t, pkix.Name{CommonName: Aggregator}),
			headers: http.Header{"X-Remote-User": {"jane"}},
			want:    &user.DefaultInfo{Name: "jane"},
		},
		{
			name:   "the aggregator names nobody and is itself",
			client: service.issue(t, pkix.Name{CommonName: Aggregator}),
			want:   &user.DefaultInfo{Name: Aggregator, Groups: []string{user.AllAuthenticated}},
		},
		{
			name:    "groups without a user are nothing",
			client:  service.issue(t, pkix.Name{CommonName: Aggregator}),
			headers: http.Header{"X-Remote-Group": {"system:masters"}},
			want:    &user.DefaultInfo{Name: Aggregator, Groups: []string{user.AllAuthenticated}},
		},
		{
			name:    "another service cannot name a user",
			client:  service.issue(t, pkix.Name{CommonName: Extensions}),
			headers: admin,
			want:    &user.DefaultInfo{Name: Extensions, Groups: []string{user.AllAuthenticated}},
		},
		{
			name:   "groups in a service's certificate are ignored",
			client: service.issue(t, pkix.Name{CommonName: Core, Organization: []string{"system:masters"}}),
			want:   &user.DefaultInfo{Name: Core, Groups: []string{user.AllAuthenticated}},
		},
		{
			name:    "a certificate of the service CA that is not a service's is nobody",
			client:  service.issue(t, pkix.Name{CommonName: "admin", Organization: []string{"system:masters"}}),
			headers: admin,
		},
		{
			name:    "the name of the aggregator on another CA's certificate is nobody",
			client:  other.issue(t, pkix.Name{CommonName: Aggregator}),
			headers: admin,
		},
		{
			name:    "headers without a certificate are nobody",
			headers: admin,
		},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			got, remaining := authenticate(t, service, test.client, test.headers)
			if diff := cmp.Diff(describe(test.want), describe(got)); diff != "" {
				t.Errorf("user (-want +got):\n%s", diff)
			}
			if test.want != nil && test.want.GetName() == test.headers.Get(UserHeader) {
				for name := range remaining {
					if strings.HasPrefix(name, "X-Remote-") {
						t.Errorf("header %s is left for the handlers", name)
					}
				}
			}
		})
	}
}

// authenticate sends a request with the certificate and headers over TLS, and returns what the authenticator makes of
// it and the headers that it leaves.
func authenticate(t *testing.T, service *authority, client *tls.Certificate, headers http.Header) (user.Info, http.Header) {
	t.Helper()
	authenticator, _, err := NewAuthenticator(service.file(t))
	if err != nil {
		t.Fatal(err)
	}
	var got user.Info
	var remaining http.Header
	server := httptest.NewUnstartedServer(http.HandlerFunc(func(_ http.ResponseWriter, req *http.Request) {
		response, ok, _ := authenticator.AuthenticateRequest(req)
		if ok {
			got = response.User
		}
		remaining = req.Header
	}))
	server.TLS = &tls.Config{
		Certificates: []tls.Certificate{*service.issue(t, pkix.Name{CommonName: Core})},
		ClientAuth:   tls.RequestClientCert,
	}
	server.StartTLS()
	defer server.Close()

	roots := x509.NewCertPool()
	roots.AddCert(service.certificate)
	config := &tls.Config{RootCAs: roots}
	if client != nil {
		config.GetClientCertificate = func(*tls.CertificateRequestInfo) (*tls.Certificate, error) { return client, nil }
	}
	transport := &http.Transport{TLSClientConfig: config}
	defer transport.CloseIdleConnections()

	req, err := http.NewRequestWithContext(t.Context(), http.MethodGet, server.URL, nil)
	if err != nil {
		t.Fatal(err)
	}
	for name, values := range headers {
		req.Header[name] = values
	}
	response, err := transport.RoundTrip(req)
	if err != nil {
		t.Fatal(err)
	}
	if err := response.Body.Close(); err != nil {
		t.Fatal(err)
	}
	return got, remaining
}

// describe makes users comparable, without the fingerprint of their certificates.
func describe(u user.Info) map[string]any {
	if u == nil {
		return nil
	}
	extra := map[string][]string{}
	for key, values := range u.GetExtra() {
		if key != user.CredentialIDKey {
			extra[key] = values
		}
	}
	return map[string]any{
		"name": u.GetName(), "uid": u.GetUID(), "groups": append([]string{}, u.GetGroups()...), "extra": extra,
	}
}
