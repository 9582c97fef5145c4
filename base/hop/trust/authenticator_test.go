// Copyright The Tripod Authors.
// SPDX-License-Identifier: Apache-2.0

package trust

import (
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"io"
	"net/http"
	"net/http/httptest"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"k8s.io/apiserver/pkg/audit"
	"k8s.io/apiserver/pkg/authentication/authenticator"
	"k8s.io/apiserver/pkg/authentication/user"
	"k8s.io/apiserver/pkg/endpoints/request"
	genericapiserver "k8s.io/apiserver/pkg/server"
	utilfeature "k8s.io/apiserver/pkg/util/feature"
	"k8s.io/client-go/rest"

	"github.com/tripod-k8s/tripod/base/hop/envelope"
	identityv1 "github.com/tripod-k8s/tripod/proto/identity/v1"
)

const (
	ownPath       = "/own"
	loopbackToken = "secret"
)

// admin is a user whom no header may turn an anonymous client into.
var admin = &identityv1.User{
	Name: "admin", Uid: "42", Groups: []string{"system:masters", " other "},
	Extra: []*identityv1.Extra{{Key: "Acme/Id", Values: []string{"a", ""}}},
}

func sealed(t *testing.T, e *identityv1.Envelope) []string {
	t.Helper()
	value, err := envelope.Encode(e)
	require.NoError(t, err)
	return []string{value}
}

// seen is what the handlers of a backend see of a request.
type seen struct {
	User        user.Info
	Address     string
	Annotations map[string]string
	Header      http.Header
}

func TestSenders(t *testing.T) {
	own, other := newAuthority(t), newAuthority(t)
	aggregator := own.issue(t, pkix.Name{CommonName: Aggregator})
	envelopeOfAdmin := sealed(t, &identityv1.Envelope{
		User: admin, ClientAddress: "192.0.2.1:99", AuditAnnotations: map[string]string{"example.com/a": "b"},
		Warnings: []*identityv1.Warning{{Text: "careful"}},
	})
	enclosed := http.Header{envelope.Header: envelopeOfAdmin}
	itself := func(name string) user.Info {
		return &service{user.DefaultInfo{Name: name, Groups: []string{user.AllAuthenticated}}}
	}
	adminUser := envelope.ToUser(admin)
	anonymous := func(name string, groups ...string) http.Header {
		return http.Header{envelope.Header: sealed(t, &identityv1.Envelope{User: &identityv1.User{Name: name, Groups: groups}})}
	}

	tests := []struct {
		name    string
		client  *tls.Certificate
		headers http.Header
		// direct allows direct clients.
		direct bool
		// noAnonymous refuses clients without credentials.
		noAnonymous bool
		// want is nil if the request must be unauthorized.
		want user.Info
	}{
		{name: "the aggregator names a user", client: aggregator, headers: enclosed, want: adminUser},
		{name: "whatever the client says besides", client: aggregator, headers: http.Header{
			envelope.Header: envelopeOfAdmin, "X-Remote-User": {"root"}, "Authorization": {"Bearer " + loopbackToken},
		}, want: adminUser},
		{name: "the aggregator names somebody without a name", client: aggregator,
			headers: http.Header{envelope.Header: sealed(t, &identityv1.Envelope{User: &identityv1.User{}})}, want: &user.DefaultInfo{}},
		{name: "the aggregator names itself", client: aggregator, headers: http.Header{envelope.Header: {ownEnvelope}}, want: itself(Aggregator)},
		{name: "a user who is called like the aggregator", client: aggregator,
			headers: http.Header{envelope.Header: sealed(t, &identityv1.Envelope{User: &identityv1.User{Name: Aggregator}})}, want: &user.DefaultInfo{Name: Aggregator}},
		{name: "the aggregator names another service", client: aggregator,
			headers: http.Header{envelope.Header: sealed(t, &identityv1.Envelope{Service: Core})}, want: itself(Core)},
		{name: "the aggregator names itself as a service", client: aggregator,
			headers: http.Header{envelope.Header: sealed(t, &identityv1.Envelope{Service: Aggregator})}},
		{name: "the aggregator names a service that there is not", client: aggregator,
			headers: http.Header{envelope.Header: sealed(t, &identityv1.Envelope{Service: "system:masters"})}},
		{name: "a service names another", client: own.issue(t, pkix.Name{CommonName: Extensions}),
			headers: http.Header{envelope.Header: sealed(t, &identityv1.Envelope{Service: Core})}},
		{name: "the aggregator names somebody anonymous", client: aggregator, headers: anonymous("system:anonymous", "system:unauthenticated"),
			want: &user.DefaultInfo{Name: "system:anonymous", Groups: []string{"system:unauthenticated"}}},
		{name: "the same where nobody is let in without credentials", client: aggregator, noAnonymous: true,
			headers: anonymous("system:anonymous", "system:unauthenticated")},
		{name: "the name is enough for that", client: aggregator, noAnonymous: true, headers: anonymous("system:anonymous")},
		{name: "the group is enough for that", client: aggregator, noAnonymous: true, headers: anonymous("", "system:unauthenticated")},
		{name: "others are let in there", client: aggregator, noAnonymous: true, headers: enclosed, want: adminUser},
		{name: "the aggregator names nobody", client: aggregator},
		{name: "the aggregator names nobody, directly", client: aggregator, direct: true},
		{name: "the aggregator names nobody but has a token", client: aggregator, headers: http.Header{"Authorization": {"Bearer " + loopbackToken}}},
		{name: "the aggregator names two", client: aggregator, headers: http.Header{envelope.Header: {envelopeOfAdmin[0], envelopeOfAdmin[0]}}},
		{name: "the aggregator sends garbage", client: aggregator, headers: http.Header{envelope.Header: {"garbage"}}},
		{name: "the aggregator sends nothing as envelope", client: aggregator, headers: http.Header{envelope.Header: {""}}},
		{name: "X-Remote-User of the aggregator means nothing", client: aggregator, headers: http.Header{"X-Remote-User": {"admin"}}},
		{name: "another service cannot name a user", client: own.issue(t, pkix.Name{CommonName: Extensions}), headers: enclosed},
		{name: "a service speaks for itself", client: own.issue(t, pkix.Name{CommonName: Extensions}), want: itself(Extensions)},
		{name: "a service's X-Remote-User means nothing", client: own.issue(t, pkix.Name{CommonName: Extensions}),
			headers: http.Header{"X-Remote-User": {"admin"}, "X-Remote-Group": {"system:masters"}}, want: itself(Extensions)},
		{name: "an additional API service speaks for itself", client: own.issue(t, pkix.Name{CommonName: wardle}), want: itself(wardle)},
		{name: "an additional API service cannot name a user", client: own.issue(t, pkix.Name{CommonName: wardle}), headers: enclosed},
		{name: "an additional API service cannot name another", client: own.issue(t, pkix.Name{CommonName: wardle}),
			headers: http.Header{envelope.Header: sealed(t, &identityv1.Envelope{Service: Core})}},
		{name: "an additional API service cannot be the aggregator", client: own.issue(t, pkix.Name{CommonName: wardle}), headers: http.Header{envelope.Header: {ownEnvelope}}},
		{name: "the aggregator names an additional API service", client: aggregator,
			headers: http.Header{envelope.Header: sealed(t, &identityv1.Envelope{Service: wardle})}, want: itself(wardle)},
		{name: "a name of a service that is no label", client: own.issue(t, pkix.Name{CommonName: userPrefix + "aggregator.x"})},
		{name: "the name that stands for others", client: own.issue(t, pkix.Name{CommonName: AnyOther})},
		{name: "groups in a service's certificate are ignored",
			client: own.issue(t, pkix.Name{CommonName: Core, Organization: []string{"system:masters"}}), want: itself(Core)},
		{name: "a certificate of the service CA that is not a service's", client: own.issue(t, pkix.Name{CommonName: "admin", Organization: []string{"system:masters"}})},
		{name: "the same with an envelope", client: own.issue(t, pkix.Name{CommonName: "admin"}), headers: enclosed},
		{name: "the name of the aggregator on another CA's certificate", client: other.issue(t, pkix.Name{CommonName: Aggregator}), headers: enclosed},
		{name: "the same where direct clients are allowed", client: other.issue(t, pkix.Name{CommonName: Aggregator}), headers: enclosed, direct: true},
		{name: "an envelope without a certificate", headers: enclosed},
		{name: "an envelope and a good token", headers: http.Header{envelope.Header: envelopeOfAdmin, "Authorization": {"Bearer " + loopbackToken}}},
		{name: "a direct client", headers: http.Header{"Direct": {"jane"}}},
		{name: "a direct client where these are allowed", headers: http.Header{"Direct": {"jane"}}, direct: true, want: &user.DefaultInfo{Name: "jane"}},
		{name: "the loopback client", headers: http.Header{"Authorization": {"Bearer " + loopbackToken}},
			want: &user.DefaultInfo{Name: user.APIServerUser, Groups: []string{user.AllAuthenticated, user.SystemPrivilegedGroup}}},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			backend := newBackend(t, own, BackendOptions{AllowDirectClients: test.direct, RefuseAnonymous: test.noAnonymous})
			status, got, warning := backend.get(t, test.client, test.headers)
			if test.want == nil {
				if status != http.StatusUnauthorized || got != nil {
					t.Errorf("answer is %d, seen as %+v", status, got)
				}
				return
			}
			if got == nil {
				t.Fatalf("answer is %d", status)
			}
			if diff := cmp.Diff(describe(test.want), describe(got.User)); diff != "" {
				t.Errorf("user (-want +got):\n%s", diff)
			}
			if _, left := got.Header[envelope.Header]; left {
				t.Error("the envelope is left for the handlers")
			}
			if test.want == adminUser {
				if got.Address != "192.0.2.1:99" || got.Annotations["example.com/a"] != "b" || warning != `299 - "careful"` {
					t.Errorf("the envelope arrives with address %q, annotations %v, warning %q", got.Address, got.Annotations, warning)
				}
			}
		})
	}
}

// TestTheAggregatorLearnsThatItIsRefused distinguishes a failure of the aggregator from one of its client.
func TestTheAggregatorLearnsThatItIsRefused(t *testing.T) {
	own, other := newAuthority(t), newAuthority(t)
	enclosed := http.Header{envelope.Header: sealed(t, &identityv1.Envelope{User: admin})}
	anonymous := http.Header{envelope.Header: sealed(t, &identityv1.Envelope{User: &identityv1.User{Name: user.Anonymous}})}
	for _, test := range []struct {
		name    string
		client  *tls.Certificate
		headers http.Header
		refused bool
		options BackendOptions
	}{
		{"a certificate of another CA", other.issue(t, pkix.Name{CommonName: Aggregator}), enclosed, true, BackendOptions{}},
		{"no envelope", own.issue(t, pkix.Name{CommonName: Aggregator}), nil, true, BackendOptions{}},
		{"a client", nil, nil, false, BackendOptions{}},
		{"an anonymous client", own.issue(t, pkix.Name{CommonName: Aggregator}), anonymous, false, BackendOptions{RefuseAnonymous: true}},
		{"a good envelope", own.issue(t, pkix.Name{CommonName: Aggregator}), enclosed, false, BackendOptions{}},
	} {
		t.Run(test.name, func(t *testing.T) {
			response := newBackend(t, own, test.options).send(t, test.client, test.headers)
			assert.Equal(t, test.refused, response.Header.Get(envelope.RefusedHeader) != "")
		})
	}
}

// backend is a server with the chain of a generic API server and one handler.
type backend struct {
	server *httptest.Server
	ca     *authority
	seen   *seen
}

func newBackend(t *testing.T, ca *authority, options BackendOptions) *backend {
	t.Helper()
	b := &backend{ca: ca}
	config := newServerConfig()
	config.LoopbackClientConfig = &rest.Config{BearerToken: loopbackToken}
	config.Authentication.Authenticator = authenticator.RequestFunc(func(req *http.Request) (*authenticator.Response, bool, error) {
		name := req.Header.Get("Direct")
		return &authenticator.Response{User: &user.DefaultInfo{Name: name}}, name != "", nil
	})
	config.Authorization.Authorizer = allowAll
	own := ca.issue(t, pkix.Name{CommonName: Core})
	certFile := writeFile(t, "core.crt", certificatePEM(own.Certificate[0]))
	options.Options = Options{CAFile: ca.file(t), CertFile: certFile}
	require.NoError(t, options.ApplyTo(config))
	handler := http.HandlerFunc(func(w http.ResponseWriter, req *http.Request) {
		_, _ = io.WriteString(w, "ok") // without a body the server sends no header
		u, _ := request.UserFrom(req.Context())
		b.seen = &seen{u, req.RemoteAddr, audit.AuditContextFrom(req.Context()).GetEventAnnotations(), req.Header}
	})
	b.server = httptest.NewUnstartedServer(config.BuildHandlerChainFunc(handler, config))
	b.server.EnableHTTP2 = true
	b.server.TLS = &tls.Config{
		Certificates: []tls.Certificate{*own},
		ClientAuth:   tls.RequestClientCert,
	}
	b.server.StartTLS()
	t.Cleanup(b.server.Close)
	return b
}

// get returns the status, what the handlers saw (nil if the request did not reach them), and the warning.
func (b *backend) get(t *testing.T, client *tls.Certificate, headers http.Header) (int, *seen, string) {
	t.Helper()
	response := b.send(t, client, headers)
	return response.StatusCode, b.seen, response.Header.Get("Warning")
}

// send returns the answer without its body.
func (b *backend) send(t *testing.T, client *tls.Certificate, headers http.Header) *http.Response {
	t.Helper()
	roots := x509.NewCertPool()
	roots.AddCert(b.ca.certificate)
	config := &tls.Config{RootCAs: roots}
	if client != nil {
		config.GetClientCertificate = func(*tls.CertificateRequestInfo) (*tls.Certificate, error) { return client, nil }
	}
	transport := &http.Transport{TLSClientConfig: config}
	defer transport.CloseIdleConnections()
	req, err := http.NewRequestWithContext(t.Context(), http.MethodGet, b.server.URL+ownPath, nil)
	require.NoError(t, err)
	req.Header = headers.Clone()
	if req.Header == nil {
		req.Header = http.Header{}
	}
	response, err := transport.RoundTrip(req)
	require.NoError(t, err)
	require.NoError(t, response.Body.Close())
	return response
}

// newServerConfig returns the part of a configuration that the handler chain needs.
func newServerConfig() *genericapiserver.Config {
	config := genericapiserver.NewConfig(codecs)
	config.RequestInfoResolver = genericapiserver.NewRequestInfoResolver(config)
	config.FeatureGate = utilfeature.DefaultFeatureGate
	config.SecureServing = &genericapiserver.SecureServingInfo{}
	return config
}

// describe makes users comparable. It leaves out the fingerprint of their certificates.
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
	_, isService := u.(*service)
	return map[string]any{"service": isService, "name": u.GetName(), "groups": append([]string{}, u.GetGroups()...), "extra": extra}
}

func TestTheAggregatorKnowsBackends(t *testing.T) {
	own, other := newAuthority(t), newAuthority(t)
	backends, _, err := (&Options{CAFile: own.file(t)}).BackendAuthenticator()
	require.NoError(t, err)
	for _, test := range []struct {
		name   string
		client *tls.Certificate
		want   string
	}{
		{"core", own.issue(t, pkix.Name{CommonName: Core}), Core},
		{"extensions", own.issue(t, pkix.Name{CommonName: Extensions, Organization: []string{"system:masters"}}), Extensions},
		{"an additional API service", own.issue(t, pkix.Name{CommonName: wardle}), wardle},
		{"an aggregator", own.issue(t, pkix.Name{CommonName: Aggregator}), ""},
		{"another name", own.issue(t, pkix.Name{CommonName: "jane"}), ""},
		{"another CA", other.issue(t, pkix.Name{CommonName: Core}), ""},
	} {
		leaf, err := x509.ParseCertificate(test.client.Certificate[0])
		require.NoError(t, err)
		req := &http.Request{TLS: &tls.ConnectionState{PeerCertificates: []*x509.Certificate{leaf}}}
		response, ok, err := backends.AuthenticateRequest(req)
		if err != nil || ok != (test.want != "") {
			t.Errorf("%s: known is %v, error %v", test.name, ok, err)
			continue
		}
		if ok && (ServiceOf(response.User) != test.want || len(response.User.GetGroups()) != 1) {
			t.Errorf("%s is %v", test.name, response.User)
		}
	}
	if _, ok, err := backends.AuthenticateRequest(&http.Request{}); ok || err != nil {
		t.Errorf("a client without certificate: known is %v, error %v", ok, err)
	}
	if name := ServiceOf(&user.DefaultInfo{Name: Core}); name != "" {
		t.Errorf("a user with the name of a service is service %q", name)
	}
}
