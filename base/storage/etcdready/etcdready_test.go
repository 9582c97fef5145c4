// Copyright The Tripod Authors.
// SPDX-License-Identifier: Apache-2.0

package etcdready

import (
	"context"
	"crypto/tls"
	"fmt"
	"io"
	"net"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"go.etcd.io/etcd/server/v3/embed"

	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/apiserver/pkg/server/dynamiccertificates"
	"k8s.io/apiserver/pkg/server/options"
	"k8s.io/apiserver/pkg/storage/etcd3/testserver"
	"k8s.io/apiserver/pkg/storage/storagebackend"
	"k8s.io/client-go/util/cert"
)

func TestWaitAnswersUntilEtcdIsThere(t *testing.T) {
	etcd := testserver.NewTestConfig(t)
	serving, config := newServing(t), configOf(etcd)

	done := make(chan error, 1)
	go func() { done <- Wait(t.Context(), config, serving) }()

	base := fmt.Sprintf("https://127.0.0.1:%d", serving.BindPort)
	eventually(t, func() bool {
		code, body := get(base + "/readyz?verbose")
		return code == http.StatusInternalServerError && strings.Contains(body, "[-]etcd failed")
	})
	if code, _ := get(base + "/livez"); code != http.StatusOK {
		t.Errorf("/livez: %d", code)
	}
	if code, body := get(base + "/api/v1/pods"); code != http.StatusServiceUnavailable || !strings.Contains(body, "waiting for etcd") {
		t.Errorf("/api/v1/pods: %d %s", code, body)
	}

	testserver.RunEtcd(t, etcd)
	require.NoError(t, <-done)

	// The listener is the next server's.
	go func() {
		connection, err := serving.Listener.Accept()
		if err == nil {
			_, _ = io.WriteString(connection, "hello")
			_ = connection.Close()
		}
	}()
	connection, err := net.Dial("tcp", serving.Listener.Addr().String())
	require.NoError(t, err)
	if got, err := io.ReadAll(connection); err != nil || string(got) != "hello" {
		t.Errorf("got %q, %v from the next server", got, err)
	}
}

func TestWaitLeavesThePortAloneWhenEtcdIsThere(t *testing.T) {
	etcd := testserver.NewTestConfig(t)
	testserver.RunEtcd(t, etcd)
	serving := newServing(t)
	require.NoError(t, Wait(t.Context(), configOf(etcd), serving))
	if serving.BindPort == 0 || serving.Listener == nil {
		t.Error("the listener is gone")
	}
}

func TestWaitEnds(t *testing.T) {
	t.Run("with the context", func(t *testing.T) {
		ctx, cancel := context.WithCancel(t.Context())
		cancel()
		assert.ErrorContains(t, Wait(ctx, configOf(testserver.NewTestConfig(t)), newServing(t)), "stopped while waiting for etcd")
	})
	t.Run("at once when a file is missing", func(t *testing.T) {
		config := storagebackend.Config{Transport: storagebackend.TransportConfig{
			ServerList: []string{"https://127.0.0.1:1"}, TrustedCAFile: "/nonexistent",
		}}
		assert.ErrorContains(t, Wait(t.Context(), config, newServing(t)), "/nonexistent")
	})
}

// configOf returns the configuration of a service that uses this etcd.
func configOf(etcd *embed.Config) storagebackend.Config {
	return storagebackend.Config{Prefix: "/registry", Transport: storagebackend.TransportConfig{ServerList: []string{etcd.ListenClientUrls[0].String()}}}
}

// newServing listens on a free port of this host.
func newServing(t *testing.T) *options.SecureServingOptions {
	t.Helper()
	certPEM, keyPEM, err := cert.GenerateSelfSignedCertKey("127.0.0.1", nil, nil)
	require.NoError(t, err)
	generated, err := dynamiccertificates.NewStaticSNICertKeyContent("test", certPEM, keyPEM)
	require.NoError(t, err)
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	t.Cleanup(func() { _ = listener.Close() })
	o := options.NewSecureServingOptions()
	o.Listener = listener
	o.BindPort = listener.Addr().(*net.TCPAddr).Port
	o.ServerCert.GeneratedCert = generated
	return o
}

func get(address string) (int, string) {
	transport := &http.Transport{TLSClientConfig: &tls.Config{InsecureSkipVerify: true}}
	defer transport.CloseIdleConnections()
	response, err := (&http.Client{Transport: transport}).Get(address)
	if err != nil {
		return 0, err.Error()
	}
	defer response.Body.Close()
	body, _ := io.ReadAll(response.Body)
	return response.StatusCode, string(body)
}

func eventually(t *testing.T, condition func() bool) {
	t.Helper()
	err := wait.PollUntilContextTimeout(t.Context(), 50*time.Millisecond, time.Minute, true,
		func(context.Context) (bool, error) { return condition(), nil })
	require.NoError(t, err)
}

func TestServersThatAreNoAddressAreRefused(t *testing.T) {
	for server, good := range map[string]bool{
		"https://127.0.0.1:2379":     true,
		"http://etcd.example.com":    true,
		"127.0.0.1:2379":             true,
		"unix:///run/etcd.sock":      true,
		":::":                        false,
		"":                           false,
		"etcd.example.com":           false,
		"https//etcd.example.com:23": false,
	} {
		if err := checkServer(server); (err == nil) != good {
			t.Errorf("%q: %v", server, err)
		}
	}
}
