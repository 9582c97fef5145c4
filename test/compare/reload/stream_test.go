// Copyright The Tripod Authors.
// SPDX-License-Identifier: Apache-2.0

package reload

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"fmt"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/tripod-k8s/tripod/base/certs"
)

// paths are of what each service serves.
var paths = []string{
	"/api/v1/namespaces/default", "/apis/apiextensions.k8s.io/v1/customresourcedefinitions?limit=1", "/apis/apiregistration.k8s.io/v1/apiservices?limit=1",
}

// stream is an endless stream of requests, of which none may fail.
type stream struct {
	client   atomic.Pointer[http.Client]
	answered atomic.Int64
	stop     func()
}

// startStream sends requests with the current client until stop or the end of the test. A failed request fails the test.
func startStream(t *testing.T, url string, client *http.Client) *stream {
	t.Helper()
	ctx, cancel := context.WithCancel(t.Context())
	s := &stream{}
	s.client.Store(client)
	var running sync.WaitGroup
	for _, path := range paths {
		running.Go(func() {
			for ctx.Err() == nil {
				code, body, err := get(ctx, s.client.Load(), url+path, nil)
				if ctx.Err() != nil {
					return
				}
				if err != nil || code != http.StatusOK {
					t.Errorf("GET %s after %d answers: %d %s %v", path, s.answered.Load(), code, body, err)
					return
				}
				s.answered.Add(1)
			}
		})
	}
	s.stop = func() { cancel(); running.Wait() }
	t.Cleanup(s.stop)
	return s
}

func get(ctx context.Context, client *http.Client, url string, header http.Header) (int, []byte, error) {
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, url, nil)
	if err != nil {
		return 0, nil, err
	}
	for name, values := range header {
		request.Header[name] = values
	}
	response, err := client.Do(request)
	if err != nil {
		return 0, nil, err
	}
	defer response.Body.Close()
	body, err := io.ReadAll(response.Body)
	return response.StatusCode, body, err
}

// authority is a CA of the test, in a directory of its own.
type authority struct {
	store *certs.Store
	ca    *certs.Authority
}

func newAuthority(t *testing.T, name string) authority {
	t.Helper()
	store, err := certs.Open(t.TempDir())
	require.NoError(t, err)
	ca, err := store.Authority(name, name)
	require.NoError(t, err)
	return authority{store: store, ca: ca}
}

// issue issues a certificate and returns the paths of it and its key.
func (a authority) issue(t *testing.T, name string, leaf certs.Leaf) (cert, key string) {
	t.Helper()
	if _, err := a.ca.Ensure(name, leaf); err != nil {
		t.Fatal(err)
	}
	return a.store.CertFile(name), a.store.KeyFile(name)
}

// client returns a client that shows a certificate, by kept connections or by a new one for each request, and trusts the CAs in
// these files.
func client(t *testing.T, cert, key string, keep bool, trusted ...string) *http.Client {
	t.Helper()
	pair, err := tls.LoadX509KeyPair(cert, key)
	require.NoError(t, err)
	roots := x509.NewCertPool()
	for _, file := range trusted {
		roots.AppendCertsFromPEM(read(t, file))
	}
	transport := &http.Transport{
		ForceAttemptHTTP2: keep, DisableKeepAlives: !keep,
		TLSClientConfig: &tls.Config{MinVersion: tls.VersionTLS12, RootCAs: roots, Certificates: []tls.Certificate{pair}},
	}
	t.Cleanup(transport.CloseIdleConnections)
	return &http.Client{Transport: transport}
}

func read(t *testing.T, files ...string) (content []byte) {
	t.Helper()
	for _, file := range files {
		data, err := os.ReadFile(file)
		require.NoError(t, err)
		content = append(content, data...)
	}
	return content
}

// replace gives a file other content in one step.
func replace(t *testing.T, file string, content []byte) {
	t.Helper()
	next := filepath.Join(filepath.Dir(file), "next-"+filepath.Base(file))
	require.NoError(t, os.WriteFile(next, content, 0o600))
	require.NoError(t, os.Rename(next, file))
}

// refused are the answers to a client whose certificate is not trusted: on a new connection, where the server has named the CAs that it
// trusts, such a certificate is not even shown, and its owner is anonymous.
var refused = []int{http.StatusUnauthorized, http.StatusForbidden}

// answers returns nil when a GET is answered with one of these codes.
func answers(ctx context.Context, client *http.Client, url string, header http.Header, want ...int) error {
	code, body, err := get(ctx, client, url, header)
	if err == nil && !slices.Contains(want, code) {
		err = fmt.Errorf("%d %s", code, body)
	}
	return err
}
