// Copyright The Tripod Authors.
// SPDX-License-Identifier: Apache-2.0

package console

import (
	"context"
	"crypto/tls"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"k8s.io/client-go/util/cert"
)

const host = "console.example.com"

// startTeam starts a console with a certificate of a name, and returns what replaces that, and what stops the console. Changes apply before it serves.
func startTeam(t *testing.T, name string, changes ...func(*TeamServer)) (server *TeamServer, write func(name string), stop func()) {
	t.Helper()
	dir := t.TempDir()
	options := NewTeamOptions()
	options.API.Host, options.Hosts = "https://api.example.com", []string{host}
	options.BindAddress, options.SecurePort, options.Probes.Address = "127.0.0.1", 0, "127.0.0.1:0"
	options.CertFile, options.KeyFile = filepath.Join(dir, "tls.crt"), filepath.Join(dir, "tls.key")
	_, err := ListenForTeam(t.Context(), options)
	require.ErrorContains(t, err, "--tls-cert-file")
	write = func(name string) {
		certificate, key, err := cert.GenerateSelfSignedCertKey(name, nil, nil)
		require.NoError(t, err)
		for path, content := range map[string][]byte{options.CertFile: certificate, options.KeyFile: key} {
			require.NoError(t, os.WriteFile(path+"~", content, 0o600))
			require.NoError(t, os.Rename(path+"~", path))
		}
	}
	write(name)
	server, err = ListenForTeam(t.Context(), options)
	require.NoError(t, err)
	for _, change := range changes {
		change(server)
	}
	ctx, cancel := context.WithCancel(t.Context())
	served := make(chan error, 1)
	go func() { served <- server.Serve(ctx) }()
	return server, write, func() {
		cancel()
		require.NoError(t, <-served)
	}
}

// visit opens the page on which users sign in, on a connection of its own.
func visit(t *testing.T, server *TeamServer) *http.Response {
	t.Helper()
	client := http.Client{Timeout: time.Minute, Transport: &http.Transport{
		TLSClientConfig: &tls.Config{InsecureSkipVerify: true}, ForceAttemptHTTP2: true, DisableKeepAlives: true,
	}}
	req, err := http.NewRequestWithContext(t.Context(), http.MethodGet, "https://"+server.Address()+"/sign-in", nil)
	require.NoError(t, err)
	req.Host = host
	response, err := client.Do(req)
	require.NoError(t, err)
	require.NoError(t, response.Body.Close())
	assert.Equal(t, http.StatusOK, response.StatusCode)
	return response
}

// TestATeamIsServedByItsCertificate has the certificate renewed while the console serves.
func TestATeamIsServedByItsCertificate(t *testing.T) {
	t.Parallel()
	server, write, stop := startTeam(t, "first.example.com")
	shown := func() string { return visit(t, server).TLS.PeerCertificates[0].DNSNames[0] }
	assert.Equal(t, "first.example.com", shown())
	write("second.example.com")
	require.Eventually(t, func() bool { return shown() == "second.example.com" }, time.Minute, 20*time.Millisecond)
	stop()
}

func TestAConnectionHasOneRequestAtOnce(t *testing.T) {
	t.Parallel()
	server, _, stop := startTeam(t, host)
	assert.Equal(t, 1, visit(t, server).ProtoMajor, "the client has offered HTTP/2")
	stop()
}

// TestIdleConnectionsKeepNoUserOut takes all connections of a network, and more.
func TestIdleConnectionsKeepNoUserOut(t *testing.T) {
	t.Parallel()
	server, _, stop := startTeam(t, host, func(s *TeamServer) {
		s.server.ReadTimeout, s.server.ReadHeaderTimeout, s.server.WriteTimeout = time.Hour, time.Hour, time.Hour // none ends by itself
	})
	for range maxConnectionsOfNetwork + 8 {
		idle, err := (&net.Dialer{}).DialContext(t.Context(), "tcp", server.Address())
		require.NoError(t, err)
		defer idle.Close()
	}
	visit(t, server)
	for range maxProbesOfNetwork + 8 {
		idle, err := (&net.Dialer{}).DialContext(t.Context(), "tcp", server.probes.listener.Addr().String())
		require.NoError(t, err)
		defer idle.Close()
	}
	for _, path := range []string{"/livez", "/readyz"} {
		response, err := http.Get("http://" + server.probes.listener.Addr().String() + path)
		require.NoError(t, err)
		require.NoError(t, response.Body.Close())
		assert.Equal(t, http.StatusOK, response.StatusCode, path)
	}
	stop()
}

func TestAStoppingConsoleIsAliveAndNotReady(t *testing.T) {
	t.Parallel()
	answers := map[bool]map[string]int{}
	for _, ready := range []bool{true, false} {
		answers[ready] = map[string]int{}
		for _, path := range []string{"/livez", "/readyz", "/"} {
			answer := httptest.NewRecorder()
			answerProbes(func() bool { return ready }).ServeHTTP(answer, httptest.NewRequest(http.MethodGet, path, nil))
			answers[ready][path] = answer.Code
		}
	}
	assert.Equal(t, map[string]int{"/livez": 200, "/readyz": 200, "/": 404}, answers[true])
	assert.Equal(t, map[string]int{"/livez": 200, "/readyz": 503, "/": 404}, answers[false])
}
