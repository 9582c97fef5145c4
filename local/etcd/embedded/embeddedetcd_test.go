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
	"strings"
	"syscall"
	"testing"
	"time"

	"k8s.io/apimachinery/pkg/util/wait"

	"github.com/tripod-k8s/tripod/local/certs"
	"github.com/tripod-k8s/tripod/local/replicas"
)

// secured returns options of an etcd with certificates, and the configuration of its clients.
func secured(t *testing.T) (Options, *tls.Config) {
	t.Helper()
	store, err := certs.Open(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	ca, err := store.Authority("ca", "etcd-ca")
	if err != nil {
		t.Fatal(err)
	}
	for name, leaf := range map[string]certs.Leaf{
		"server": {CommonName: "etcd", IPs: []net.IP{net.IPv4(127, 0, 0, 1)}, Server: true, Client: true},
		"client": {CommonName: "client", Client: true},
	} {
		if _, err := ca.Ensure(name, leaf); err != nil {
			t.Fatal(err)
		}
	}
	port, err := replicas.ReservePort()
	if err != nil {
		t.Fatal(err)
	}
	port.Release()
	config, err := replicas.ClientTLS(store, "ca", "client")
	if err != nil {
		t.Fatal(err)
	}
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
	response.Body.Close() //nolint:errcheck // nothing depends on it
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
	if err != nil {
		t.Errorf("etcd is not ready: %v", err)
	}
	if ready(ctx, options.ClientURL, &tls.Config{RootCAs: client.RootCAs}) {
		t.Error("etcd serves a client without a certificate")
	}
	stop()
	if err := <-ended; err != nil {
		t.Error(err)
	}
}

func TestBusyPortIsSaidClearly(t *testing.T) {
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer listener.Close() //nolint:errcheck // only for this test
	url := "http://" + listener.Addr().String()
	err = Run(t.Context(), Options{DataDir: t.TempDir(), ClientURL: url, LogLevel: "fatal"})
	if err == nil || !strings.Contains(err.Error(), "already in use: "+url) {
		t.Errorf("error is %v", err)
	}
}

func TestDataThatAnotherEtcdUsesAreSaidClearly(t *testing.T) {
	dataDir := t.TempDir()
	path := filepath.Join(dataDir, "member", "snap", "db")
	if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
		t.Fatal(err)
	}
	db, err := os.Create(path)
	if err != nil {
		t.Fatal(err)
	}
	defer db.Close() //nolint:errcheck // only for this test
	if err := syscall.Flock(int(db.Fd()), syscall.LOCK_EX); err != nil {
		t.Fatal(err)
	}
	err = awaitUnlocked(t.Context(), dataDir, time.Millisecond)
	if err == nil || !strings.Contains(err.Error(), "another etcd uses the data in "+dataDir) {
		t.Errorf("error is %v", err)
	}
}

func TestUnusableURLIsSaidClearly(t *testing.T) {
	err := Run(t.Context(), Options{DataDir: t.TempDir(), ClientURL: "nonsense"})
	if err == nil || !strings.Contains(err.Error(), `"nonsense" is not of the form`) {
		t.Errorf("error is %v", err)
	}
}
