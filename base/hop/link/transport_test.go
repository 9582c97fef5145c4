// Copyright The Tripod Authors.
// SPDX-License-Identifier: Apache-2.0

package link

import (
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"k8s.io/client-go/rest"

	"github.com/tripod-k8s/tripod/base/hop/addresses"
	"github.com/tripod-k8s/tripod/base/hop/connectionstest"
	"github.com/tripod-k8s/tripod/base/hop/trust"
)

func TestCertificatesAreReadForEachConnection(t *testing.T) {
	dir := t.TempDir()
	own := trust.Options{
		CAFile: filepath.Join(dir, "ca.crt"), CertFile: filepath.Join(dir, "tls.crt"), KeyFile: filepath.Join(dir, "tls.key"),
	}
	link := New("core", nil, own)
	client, err := rest.HTTPClientFor(link.Config(Fail))
	require.NoError(t, err)
	for _, authority := range []string{"first", "second"} {
		pki := connectionstest.NewPKI(t)
		for from, to := range map[string]string{pki.CAFile: own.CAFile, pki.CertFile: own.CertFile, pki.KeyFile: own.KeyFile} {
			content, err := os.ReadFile(from)
			require.NoError(t, err)
			require.NoError(t, os.WriteFile(to, content, 0o600))
		}
		server := httptest.NewUnstartedServer(http.HandlerFunc(func(w http.ResponseWriter, req *http.Request) {
			if req.ProtoMajor != 2 || len(req.TLS.PeerCertificates) == 0 {
				t.Errorf("%s with %d certificates", req.Proto, len(req.TLS.PeerCertificates))
			}
			w.WriteHeader(http.StatusNoContent)
		}))
		server.TLS = pki.ServerConfig(t, trust.ServerName("core"))
		server.EnableHTTP2 = true
		server.StartTLS()
		t.Cleanup(server.Close)
		at, err := addresses.OfServer(server.URL)
		require.NoError(t, err)
		link.SetServers([]addresses.Location{at})
		req, err := http.NewRequestWithContext(t.Context(), http.MethodGet, "https://core/", nil)
		require.NoError(t, err)
		resp, err := client.Do(req)
		require.NoError(t, err, "%s authority", authority)
		assert.NoError(t, resp.Body.Close())
	}
}
