// Copyright The Tripod Authors.
// SPDX-License-Identifier: Apache-2.0

package behaviour

import (
	"bufio"
	"crypto/tls"
	"fmt"
	"io"
	"net/http"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	authenticationv1 "k8s.io/api/authentication/v1"
	"k8s.io/client-go/rest"
)

// spoofed are headers by which a client might claim to be another user, in the spellings that servers and proxies
// have confused before. Each is one line of a request.
var spoofed = map[string][]string{
	"canonical":            {"X-Remote-User: admin", "X-Remote-Group: system:masters"},
	"lower case":           {"x-remote-user: admin", "x-remote-group: system:masters"},
	"mixed case":           {"x-ReMoTe-UsEr: admin", "X-REMOTE-GROUP: system:masters"},
	"underscores":          {"X_Remote_User: admin", "X_Remote_Group: system:masters"},
	"groups only":          {"X-Remote-Group: system:masters", "X-Remote-Group: system:nodes"},
	"extra":                {"X-Remote-Extra-Scopes: everything", "x-remote-extra-Authentication.kubernetes.io%2fcredential-Id: x"},
	"uid":                  {"X-Remote-Uid: 0", "X-Remote-User: admin"},
	"hop by hop":           {"Connection: X-Remote-User, X-Remote-Group, X-Remote-Uid", "X-Remote-User: admin"},
	"hop by hop, extra":    {"Connection: X-Remote-Extra-Authentication.kubernetes.io%2fcredential-Id", "X-Remote-Group: system:masters"},
	"connection and close": {"Connection: close, X-Remote-Group", "X-Remote-Group: system:masters"},
	"trailer":              {"Trailer: X-Remote-User", "X-Remote-User: admin"},
	"forwarded":            {"X-Forwarded-User: admin", "X-Forwarded-Client-Cert: Subject=\"CN=admin\"", "Forwarded: for=127.0.0.1;by=admin"},
	"identity of Tripod":   {"X-Tripod-Identity: admin", "Tripod-Identity: admin", "X-Remote-User: system:tripod:aggregator"},
}

func TestHeadersOfClientsDoNotChangeTheUser(t *testing.T) {
	t.Parallel()
	mallory := user(t, "mallory", "clowns")
	want, err := whoAmI(t.Context(), mallory)
	require.NoError(t, err)
	for name, lines := range spoofed {
		t.Run(name, func(t *testing.T) {
			review := roundTrip(t, mallory, http.MethodPost, "/apis/authentication.k8s.io/v1/selfsubjectreviews",
				append(lines, "Content-Type: application/json"), `{"apiVersion":"authentication.k8s.io/v1","kind":"SelfSubjectReview"}`)
			got := decode[authenticationv1.SelfSubjectReview](t, review, http.StatusCreated).Status.UserInfo
			if got.Username != want.Username || got.UID != want.UID || !slices.Equal(got.Groups, want.Groups) || fmt.Sprint(got.Extra) != fmt.Sprint(want.Extra) {
				t.Errorf("with %q: %v, without: %v", lines, got, want)
			}
			for server, path := range servedBy(t) {
				resp := roundTrip(t, mallory, http.MethodGet, path, lines, "")
				if resp.Code != http.StatusForbidden || !strings.Contains(resp.status(t).Message, `User "mallory" cannot list`) {
					t.Errorf("%s answers %d: %s", server, resp.Code, resp.Body)
				}
			}
		})
	}
}

func TestHeadersOfAnonymousClientsDoNotMakeThemSomebody(t *testing.T) {
	t.Parallel()
	for name, lines := range spoofed {
		t.Run(name, func(t *testing.T) {
			for server, path := range servedBy(t) {
				resp := roundTrip(t, cluster.Anonymous(), http.MethodGet, path, lines, "")
				if resp.Code != http.StatusForbidden || !strings.Contains(resp.status(t).Message, `User "system:anonymous"`) {
					t.Errorf("%s answers %d: %s", server, resp.Code, resp.Body)
				}
			}
		})
	}
}

func TestAnAuthenticatingProxyIsBelieved(t *testing.T) {
	t.Parallel()
	config := cluster.Anonymous()
	config.CertFile, config.KeyFile = cluster.PKI+"/front-proxy-client.crt", cluster.PKI+"/front-proxy-client.key"
	resp := roundTrip(t, config, http.MethodPost, "/apis/authentication.k8s.io/v1/selfsubjectreviews", []string{
		"X-Remote-User: guest", "X-Remote-Group: visitors", "X-Remote-Extra-Example.com%2fdoor: back", "Content-Type: application/json",
	}, `{"apiVersion":"authentication.k8s.io/v1","kind":"SelfSubjectReview"}`)
	info := decode[authenticationv1.SelfSubjectReview](t, resp, http.StatusCreated).Status.UserInfo
	if info.Username != "guest" || !slices.Equal(info.Groups, []string{"visitors", "system:authenticated"}) ||
		!slices.Equal(info.Extra["example.com/door"], []string{"back"}) {
		t.Errorf("got %v", info)
	}
}

// roundTrip sends a request line by line over HTTP/1.1, as no client library would.
func roundTrip(t testing.TB, config *rest.Config, method, path string, lines []string, body string) response {
	t.Helper()
	tlsConfig, err := rest.TLSConfigFor(config)
	require.NoError(t, err)
	tlsConfig.NextProtos = []string{"http/1.1"}
	connection, err := tls.Dial("tcp", strings.TrimPrefix(config.Host, "https://"), tlsConfig)
	require.NoError(t, err)
	defer closing(connection)
	message := fmt.Sprintf("%s %s HTTP/1.1\r\nHost: kubernetes\r\nAccept: application/json\r\nContent-Length: %d\r\n%s\r\n\r\n%s",
		method, path, len(body), strings.Join(lines, "\r\n"), body)
	_, err = io.WriteString(connection, message)
	require.NoError(t, err)
	answer, err := http.ReadResponse(bufio.NewReader(connection), &http.Request{Method: method})
	require.NoError(t, err)
	defer closing(answer.Body)
	data, err := io.ReadAll(answer.Body)
	require.NoError(t, err)
	return response{answer.StatusCode, answer.Header, data}
}
