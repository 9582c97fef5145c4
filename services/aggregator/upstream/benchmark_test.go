// Copyright The Tripod Authors.
// SPDX-License-Identifier: Apache-2.0

package upstream

import (
	"crypto/tls"
	"crypto/x509"
	"io"
	"net/http"
	"os"
	"testing"

	"golang.org/x/net/http2"

	"github.com/tripod-k8s/tripod/base/hop/connectionstest"
	"github.com/tripod-k8s/tripod/services/aggregator/routing"
)

// BenchmarkRoundTrip measures what a Backend adds to the transports of net/http and x/net/http2. The read uses HTTP/1.1, and the write HTTP/2.
func BenchmarkRoundTrip(b *testing.B) {
	pki := connectionstest.NewPKI(b)
	var addresses []string
	for range 3 {
		addresses = append(addresses, serveEcho(b, pki))
	}
	backend := newBackend(b, pki, addresses...)
	for _, address := range addresses {
		backend.find(address, ready)
	}
	pem, err := os.ReadFile(pki.CAFile)
	if err != nil {
		b.Fatal(err)
	}
	roots := x509.NewCertPool()
	roots.AppendCertsFromPEM(pem)
	cert, err := tls.LoadX509KeyPair(pki.CertFile, pki.KeyFile)
	if err != nil {
		b.Fatal(err)
	}
	config := func() *tls.Config {
		return &tls.Config{RootCAs: roots, ServerName: coreServerName, Certificates: []tls.Certificate{cert}}
	}
	transports := map[string]http.RoundTripper{
		"net/http":      &http.Transport{TLSClientConfig: config(), DisableCompression: true, MaxIdleConnsPerHost: 100},
		"x/net/http2":   &http2.Transport{TLSClientConfig: config(), DisableCompression: true},
		"Backend/read":  backend,
		"Backend/write": backend,
	}
	for _, name := range []string{"net/http", "Backend/read", "x/net/http2", "Backend/write"} {
		b.Run(name, func(b *testing.B) {
			method := http.MethodGet
			if name == "Backend/write" || name == "x/net/http2" {
				method = http.MethodPut
			}
			b.ReportAllocs()
			for b.Loop() {
				req, err := http.NewRequestWithContext(b.Context(), method, "https://"+addresses[0]+"/api/v1/namespaces/a/pods/b", nil)
				if err != nil {
					b.Fatal(err)
				}
				req = classified(b, req, routing.Target{Owner: routing.Core})
				resp, err := transports[name].RoundTrip(req)
				if err != nil {
					b.Fatal(err)
				}
				_, _ = io.Copy(io.Discard, resp.Body)
				_ = resp.Body.Close()
			}
		})
	}
}
