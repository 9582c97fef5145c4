// Copyright The Tripod Authors.
// SPDX-License-Identifier: Apache-2.0

package identity

import (
	"bufio"
	"context"
	"crypto/tls"
	"fmt"
	"io"
	"maps"
	"net/http"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"k8s.io/client-go/rest"

	"github.com/tripod-k8s/tripod/base/certs"
	"github.com/tripod-k8s/tripod/base/hop/envelope"
	"github.com/tripod-k8s/tripod/base/hop/trust"
	identityv1 "github.com/tripod-k8s/tripod/proto/identity/v1"
	"github.com/tripod-k8s/tripod/test/framework"
)

// masterEnvelope is an envelope of a superuser, which a client may send and a backend must not accept.
func masterEnvelope(t testing.TB) string {
	t.Helper()
	value, err := envelope.Encode(&identityv1.Envelope{User: envelope.FromUser(framework.Master), ClientAddress: "192.0.2.1:1"})
	require.NoError(t, err)
	return value
}

// selfEnvelope is by which the aggregator speaks for itself.
func selfEnvelope(t testing.TB) string {
	t.Helper()
	value, err := envelope.Encode(&identityv1.Envelope{Self: true})
	require.NoError(t, err)
	return value
}

// claims are headers by which a client might be taken for another user, each a line of a request, in the spellings that
// servers and proxies have confused before.
func claims(t testing.TB) map[string][]string {
	t.Helper()
	value := masterEnvelope(t)
	return map[string][]string{
		"canonical":                    {"Tripod-Envelope: " + value},
		"lower case":                   {"tripod-envelope: " + value},
		"mixed case":                   {"tRIPOD-eNVELOPE: " + value},
		"underscore":                   {"Tripod_Envelope: " + value},
		"twice":                        {"Tripod-Envelope: " + value, "Tripod-Envelope: " + value},
		"twice, differently":           {"tripod-envelope: " + value, "Tripod_Envelope: " + value},
		"the aggregator itself":        {"Tripod-Envelope: " + selfEnvelope(t)},
		"empty":                        {"Tripod-Envelope: "},
		"nonsense":                     {"Tripod-Envelope: %%%"},
		"with white space":             {"Tripod-Envelope: \t " + value + " \t"},
		"two values in one":            {"Tripod-Envelope: " + value + ", " + value},
		"hop by hop":                   {"Connection: Tripod-Envelope", "Tripod-Envelope: " + value},
		"hop by hop, without one":      {"Connection: Tripod-Envelope, tripod-envelope"},
		"hop by hop with others":       {"Connection: keep-alive, Tripod-Envelope, Audit-Id, Authorization, X-Remote-User", "X-Remote-User: admin"},
		"old hop by hop":               {"Proxy-Connection: Tripod-Envelope", "Keep-Alive: Tripod-Envelope", "TE: trailers"},
		"trailer":                      {"Trailer: Tripod-Envelope", "Tripod-Envelope: " + value},
		"remote headers":               {"X-Remote-User: admin", "X-Remote-Group: system:masters", "X-Remote-Uid: 0", "X-Remote-Extra-Scopes: all"},
		"remote headers, lower case":   {"x-remote-user: admin", "x-remote-group: system:masters"},
		"remote headers, underscores":  {"X_Remote_User: admin", "X_Remote_Group: system:masters", "X-Remote_Group: system:masters"},
		"remote headers, hop by hop":   {"Connection: X-Remote-User, X-Remote-Group, X-Remote-Uid", "X-Remote-Group: system:masters"},
		"remote headers and envelope":  {"X-Remote-User: system:tripod:aggregator", "Tripod-Envelope: " + value},
		"another replica's own header": {"X-Tripod-Replica: core-0", "Tripod-Self: true", "Forwarded: for=127.0.0.1", "X-Forwarded-Client-Cert: Subject=\"CN=system:tripod:aggregator\""},
	}
}

// Whatever a client claims, it is whom the aggregator knows, as admission in core and in extensions sees it.
func TestNoHeaderMakesAClientSomebodyElse(t *testing.T) {
	t.Parallel()
	mallory, err := tested.cluster.UserConfig("mallory", "clowns")
	require.NoError(t, err)
	token, err := requested("robot", nil)(t.Context(), tested)
	require.NoError(t, err)
	for who, config := range map[string]*rest.Config{
		"a certificate": mallory, "a token": withToken(tested.cluster, token), "nobody": tested.cluster.Anonymous(),
	} {
		for path, body := range servers {
			want := roundTrip(t, config, http.MethodPost, path, nil, body)
			for name, lines := range claims(t) {
				t.Run(fmt.Sprintf("%s to %s: %s", who, path, name), func(t *testing.T) {
					t.Parallel()
					got := roundTrip(t, config, http.MethodPost, path, lines, body)
					if withoutOrder(got.Body) != withoutOrder(want.Body) || got.Code != want.Code {
						t.Errorf("with %q: %v, without: %v", lines, got, want)
					}
					// Requests that are to become streams go another way through the aggregator.
					upgraded := roundTrip(t, config, http.MethodPost, path, append(slices.Clone(lines), "Connection: Upgrade", "Upgrade: websocket"), body)
					if withoutOrder(upgraded.Body) != withoutOrder(want.Body) || upgraded.Code != want.Code {
						t.Errorf("with %q and an upgrade: %v, without: %v", lines, upgraded, want)
					}
				})
			}
		}
	}
}

// withoutOrder returns the bytes of a text in order: CEL has the keys of a user's extra in none.
func withoutOrder(text []byte) string {
	text = slices.Clone(text)
	slices.Sort(text)
	return string(text)
}

// roundTrip sends a request line by line over HTTP/1.1, as no client library would.
func roundTrip(t testing.TB, config *rest.Config, method, path string, lines []string, body string) answer {
	t.Helper()
	tlsConfig, err := rest.TLSConfigFor(config)
	require.NoError(t, err)
	tlsConfig.NextProtos = []string{"http/1.1"}
	connection, err := tls.Dial("tcp", strings.TrimPrefix(config.Host, "https://"), tlsConfig)
	require.NoError(t, err)
	defer closing(connection)
	if config.BearerToken != "" {
		lines = append(slices.Clone(lines), "Authorization: Bearer "+config.BearerToken)
	}
	message := fmt.Sprintf("%s %s HTTP/1.1\r\nHost: kubernetes\r\nAccept: application/json\r\nContent-Type: application/json\r\nContent-Length: %d\r\n%s\r\n\r\n%s",
		method, path, len(body), strings.Join(lines, "\r\n"), body)
	message = strings.Replace(message, "\r\n\r\n\r\n", "\r\n\r\n", 1)
	_, err = io.WriteString(connection, message)
	require.NoError(t, err)
	response, err := http.ReadResponse(bufio.NewReader(connection), &http.Request{Method: method})
	require.NoError(t, err)
	defer closing(response.Body)
	data, err := io.ReadAll(response.Body)
	require.NoError(t, err)
	return answer{response.StatusCode, response.Header, data}
}

// A backend accepts on its own port only clients with the certificate of a service, and only from the aggregator a header with
// the identity of a sender.
func (f *fleet) backendsBelieveOnlyTheAggregator(t *testing.T) {
	certificates := f.otherCertificates(t)
	headers := map[string]http.Header{
		"an envelope":           {envelope.Header: {masterEnvelope(t)}},
		"the aggregator's own":  {envelope.Header: {selfEnvelope(t)}},
		"remote headers":        {"X-Remote-User": {"admin"}, "X-Remote-Group": {"system:masters"}},
		"both":                  {envelope.Header: {masterEnvelope(t)}, "X-Remote-User": {"admin"}, "X-Remote-Group": {"system:masters"}},
		"an impersonated user":  {"Impersonate-User": {"admin"}, "Impersonate-Group": {"system:masters"}},
		"a token":               {"Authorization": {"Bearer " + issue(t, f.promptly(t), "robot", "", "")}},
		"nothing":               {},
		"an envelope, twice":    {envelope.Header: {masterEnvelope(t), masterEnvelope(t)}},
		"an envelope, nonsense": {envelope.Header: {"nonsense"}},
	}
	for _, replica := range []string{"core-0", "extensions-0"} {
		for _, who := range slices.Sorted(maps.Keys(certificates)) {
			config := f.Backend(replica, "")
			config.CertFile, config.KeyFile = certificates[who].cert, certificates[who].key
			for _, header := range slices.Sorted(maps.Keys(headers)) {
				t.Run(fmt.Sprintf("%s, %s with %s", replica, who, header), func(t *testing.T) {
					for _, path := range []string{configMapsPath, widgetsPath, "/api", "/metrics", "/readyz", "/"} {
						a, err := send(t.Context(), config, http.MethodGet, path, headers[header], "")
						// A connection may be refused as a whole.
						if err == nil && a.Code != http.StatusUnauthorized && a.Code != http.StatusForbidden {
							t.Errorf("GET %s: %v", path, a)
						}
					}
				})
			}
		}
	}
}

// From the aggregator, a backend accepts every valid envelope, and no request without one.
func (f *fleet) backendsNeedAnEnvelopeOfTheAggregator(t *testing.T) {
	value := masterEnvelope(t)
	for replica, path := range map[string]string{"core-0": configMapsPath, "extensions-0": widgetsPath} {
		require.NoError(t, newDoor(t, replica, f.As(replica, framework.Master), path).becomes(t.Context(), http.StatusOK))
		config := f.Backend(replica, "aggregator")
		for name, test := range map[string]struct {
			header http.Header
			good   bool
		}{
			"an envelope":                {http.Header{envelope.Header: {value}}, true},
			"remote headers beside":      {http.Header{envelope.Header: {value}, "X-Remote-User": {"nobody"}}, true},
			"none":                       {http.Header{}, false},
			"remote headers":             {http.Header{"X-Remote-User": {"admin"}, "X-Remote-Group": {"system:masters"}}, false},
			"a token":                    {http.Header{"Authorization": {"Bearer " + issue(t, f.promptly(t), "robot", "", "")}}, false},
			"an empty one":               {http.Header{envelope.Header: {""}}, false},
			"nonsense":                   {http.Header{envelope.Header: {"nonsense"}}, false},
			"an envelope with an ending": {http.Header{envelope.Header: {value + "="}}, false},
			"two":                        {http.Header{envelope.Header: {value, value}}, false},
			"half of one":                {http.Header{envelope.Header: {value[:len(value)/2]}}, false},
		} {
			a, err := send(t.Context(), config, http.MethodGet, path, test.header, "")
			require.NoError(t, err)
			if (a.Code == http.StatusOK) != test.good || a.Code >= http.StatusInternalServerError {
				t.Errorf("%s with %s: %v", replica, name, a)
			}
		}
	}
}

type keyPair struct{ cert, key string }

// otherCertificates are those that a client may have who is not the aggregator.
func (f *fleet) otherCertificates(t testing.TB) map[string]keyPair {
	t.Helper()
	pair := func(name string) keyPair {
		return keyPair{filepath.Join(f.PKI, name+".crt"), filepath.Join(f.PKI, name+".key")}
	}
	pairs := map[string]keyPair{
		"no certificate": {}, "an administrator": pair("admin"), "an authenticating proxy": pair("front-proxy-client"), "the public endpoint": pair("apiserver"),
	}
	lookalike, err := f.UserConfig(trust.Aggregator)
	require.NoError(t, err)
	pairs["a user called like the aggregator"] = keyPair{lookalike.CertFile, lookalike.KeyFile}

	store, err := certs.Open(f.PKI)
	require.NoError(t, err)
	ca, err := store.Authority("service-ca", "")
	require.NoError(t, err)
	for name, leaf := range map[string]certs.Leaf{
		"not-a-service":       {CommonName: "system:tripod:Not.A.Service", Client: true},
		"aggregator-dns-only": {CommonName: "other", DNSNames: []string{"aggregator.tripod-system.svc"}, Client: true},
		"aggregator-no-case":  {CommonName: "System:Tripod:Aggregator", Client: true},
		"aggregator-org":      {CommonName: "other", Organizations: []string{trust.Aggregator}, Client: true},
	} {
		_, err := ca.Ensure(name, leaf)
		require.NoError(t, err)
		pairs["of the service CA, "+name] = pair(name)
	}
	return pairs
}

// A service other than the aggregator is itself, whatever its headers have, and may do what is meant for it.
func (f *fleet) servicesSpeakForNobodyElse(t *testing.T) {
	store, err := certs.Open(f.PKI)
	require.NoError(t, err)
	ca, err := store.Authority("service-ca", "")
	require.NoError(t, err)
	_, err = ca.Ensure("another-service", certs.Leaf{CommonName: trust.UserOf("other"), Client: true})
	require.NoError(t, err)
	for _, test := range []struct{ replica, certificate, method, path string }{
		{"core-0", "extensions", http.MethodGet, secretsPath},
		{"core-0", "another-service", http.MethodGet, secretsPath},
		{"extensions-0", "core", http.MethodDelete, gadgetsPath},
		{"extensions-0", "another-service", http.MethodDelete, gadgetsPath},
	} {
		config := f.Backend(test.replica, test.certificate)
		for name, header := range map[string]http.Header{
			"nothing":              {},
			"an envelope":          {envelope.Header: {masterEnvelope(t)}},
			"the aggregator's own": {envelope.Header: {selfEnvelope(t)}},
			"remote headers":       {"X-Remote-User": {"admin"}, "X-Remote-Group": {"system:masters"}},
			"an impersonated user": {"Impersonate-User": {"admin"}, "Impersonate-Group": {"system:masters"}},
		} {
			a, err := send(t.Context(), config, test.method, test.path, header, "")
			require.NoError(t, err)
			if a.Code != http.StatusForbidden && a.Code != http.StatusUnauthorized && a.Code != http.StatusBadRequest {
				t.Errorf("%s with the certificate of %s and %s: %v", test.replica, test.certificate, name, a)
			}
		}
	}
	for _, test := range []struct{ replica, certificate, path string }{
		{"core-0", "extensions", "/api/v1/namespaces"},
		{"core-0", "another-service", "/api/v1/namespaces"},
		{"extensions-0", "core", gadgetsPath},
	} {
		a, err := send(t.Context(), f.Backend(test.replica, test.certificate), http.MethodGet, test.path, nil, "")
		require.NoError(t, err)
		assert.Equal(t, http.StatusOK, a.Code, "%s reading %s: %v", test.certificate, test.path, a)
	}
}

// Only aggregators may ask about tokens.
func (f *fleet) onlyTheAggregatorMayAskCoreAboutTokens(t *testing.T) {
	token := issue(t, f.promptly(t), "robot", "", "")
	for _, certificate := range []string{"", "extensions", "core", "admin", "front-proxy-client"} {
		client := identityv1.NewIdentityClient(f.dial(t, "core-0", certificate))
		_, err := client.Authenticate(t.Context(), &identityv1.AuthenticateRequest{Token: token})
		if code := status.Code(err); code != codes.PermissionDenied && code != codes.Unauthenticated && code != codes.Unavailable {
			t.Errorf("with certificate %q: %v", certificate, err)
		}
		stream, err := client.Watch(t.Context(), &identityv1.WatchRequest{})
		if err == nil {
			_, err = stream.Recv()
		}
		if err == nil {
			t.Errorf("with certificate %q a watch is served", certificate)
		}
	}
	answer, err := identityv1.NewIdentityClient(f.dial(t, "core-0", "aggregator")).Authenticate(context.Background(), &identityv1.AuthenticateRequest{Token: token})
	if err != nil || answer.GetUser().GetName() != "system:serviceaccount:test:robot" {
		t.Errorf("the aggregator gets %v, %v", answer, err)
	}
}
