// Copyright The Tripod Authors.
// SPDX-License-Identifier: Apache-2.0

package embedded

import (
	"context"
	"crypto/tls"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"k8s.io/apimachinery/pkg/util/wait"

	"github.com/tripod-k8s/tripod/base/certs"
	"github.com/tripod-k8s/tripod/local/replicas"
)

// secured returns options of an etcd with certificates, and the configuration of its clients.
func secured(t *testing.T) (Options, *tls.Config) {
	t.Helper()
	store, err := certs.Open(t.TempDir())
	require.NoError(t, err)
	ca, err := store.Authority("ca", "etcd-ca")
	require.NoError(t, err)
	for name, leaf := range map[string]certs.Leaf{
		"server": {CommonName: "etcd", IPs: []net.IP{net.IPv4(127, 0, 0, 1)}, Server: true, Client: true},
		"client": {CommonName: "client", Client: true},
	} {
		if _, err := ca.Ensure(name, leaf); err != nil {
			t.Fatal(err)
		}
	}
	port, err := replicas.ReservePort()
	require.NoError(t, err)
	port.Release()
	config, err := replicas.ClientTLS(store, "ca", "client")
	require.NoError(t, err)
	return Options{
		DataDir: t.TempDir(), ClientURL: port.URL(), LogLevel: "error",
		CertFile: store.CertFile("server"), KeyFile: store.KeyFile("server"), TrustedCAFile: ca.File(),
	}, config
}

func ready(ctx context.Context, url string, config *tls.Config) bool {
	transport := &http.Transport{TLSClientConfig: config}
	defer transport.CloseIdleConnections()
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, url+"/readyz", nil)
	if err != nil {
		return false
	}
	response, err := transport.RoundTrip(req)
	if err != nil {
		return false
	}
	response.Body.Close()
	return response.StatusCode == http.StatusOK
}

func TestServesOnlyClientsWithACertificateUntilItsContextEnds(t *testing.T) {
	options, client := secured(t)
	ctx, stop := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	go func() { ended <- Run(ctx, options) }()
	err := wait.PollUntilContextTimeout(ctx, 50*time.Millisecond, time.Minute, true, func(ctx context.Context) (bool, error) {
		return ready(ctx, options.ClientURL, client), nil
	})
	assert.NoError(t, err, "etcd is not ready")
	if ready(ctx, options.ClientURL, &tls.Config{RootCAs: client.RootCAs}) {
		t.Error("etcd serves a client without a certificate")
	}
	stop()
	assert.NoError(t, <-ended)
}

func TestBusyPortIsReportedClearly(t *testing.T) {
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	defer listener.Close()
	url := "http://" + listener.Addr().String()
	err = Run(t.Context(), Options{DataDir: t.TempDir(), ClientURL: url, LogLevel: "fatal"})
	assert.ErrorContains(t, err, "already in use: "+url)
}

func TestDataThatAnotherEtcdUsesAreReportedClearly(t *testing.T) {
	dataDir := t.TempDir()
	path := filepath.Join(dataDir, "member", "snap", "db")
	require.NoError(t, os.MkdirAll(filepath.Dir(path), 0o700))
	db, err := os.Create(path)
	require.NoError(t, err)
	defer db.Close()
	require.NoError(t, syscall.Flock(int(db.Fd()), syscall.LOCK_EX))
	err = awaitUnlocked(t.Context(), dataDir, time.Millisecond)
	assert.ErrorContains(t, err, "another etcd uses the data in "+dataDir)
}

func TestUnusableURLIsReportedClearly(t *testing.T) {
	err := Run(t.Context(), Options{DataDir: t.TempDir(), ClientURL: "nonsense"})
	assert.ErrorContains(t, err, `"nonsense" is not of the form`)
}

// TestItCompactsItself, because the users of services may not compact.
func TestItCompactsItself(t *testing.T) {
	o, _ := secured(t)
	config, err := o.config()
	if err != nil {
		t.Fatal(err)
	}
	if config.AutoCompactionMode != "periodic" || config.AutoCompactionRetention != "5m" {
		t.Errorf("it compacts by %q, and keeps %q", config.AutoCompactionMode, config.AutoCompactionRetention)
	}
}
