// Copyright The Tripod Authors.
// SPDX-License-Identifier: Apache-2.0

package console

import (
	"context"
	"crypto/tls"
	"net/http"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"k8s.io/client-go/util/cert"

	"github.com/tripod-k8s/tripod/console/signin"
)

// TestATeamIsServedByItsCertificate has the certificate renewed while the console serves.
func TestATeamIsServedByItsCertificate(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	options := NewTeamOptions()
	options.API.Host, options.Hosts = "https://api.example.com", []string{"console.example.com"}
	options.BindAddress, options.SecurePort = "127.0.0.1", 0
	options.CertFile, options.KeyFile = filepath.Join(dir, "tls.crt"), filepath.Join(dir, "tls.key")
	_, err := ListenForTeam(t.Context(), options)
	require.ErrorContains(t, err, "--tls-cert-file")
	write := func(host string) {
		certificate, key, err := cert.GenerateSelfSignedCertKey(host, nil, nil)
		require.NoError(t, err)
		for path, content := range map[string][]byte{options.CertFile: certificate, options.KeyFile: key} {
			require.NoError(t, os.WriteFile(path+"~", content, 0o600))
			require.NoError(t, os.Rename(path+"~", path))
		}
	}
	write("first.example.com")
	server, err := ListenForTeam(t.Context(), options)
	require.NoError(t, err)
	ctx, stop := context.WithCancel(t.Context())
	served := make(chan error, 1)
	go func() { served <- server.Serve(ctx) }()
	shown := func() string {
		client := http.Client{Transport: &http.Transport{
			TLSClientConfig: &tls.Config{InsecureSkipVerify: true}, ForceAttemptHTTP2: true, DisableKeepAlives: true,
		}}
		response, err := client.Get("https://" + server.Address() + signin.Livez)
		require.NoError(t, err)
		defer response.Body.Close()
		assert.Equal(t, http.StatusOK, response.StatusCode)
		assert.Equal(t, 2, response.ProtoMajor)
		return response.TLS.PeerCertificates[0].DNSNames[0]
	}
	assert.Equal(t, "first.example.com", shown())
	write("second.example.com")
	require.Eventually(t, func() bool { return shown() == "second.example.com" }, time.Minute, 20*time.Millisecond)
	stop()
	require.NoError(t, <-served)
}
