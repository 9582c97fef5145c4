// Copyright The Tripod Authors.
// SPDX-License-Identifier: Apache-2.0

package rpc

import (
	"context"
	"crypto/tls"
	"net"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"go.opentelemetry.io/otel/trace/noop"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials"
	healthv1 "google.golang.org/grpc/health/grpc_health_v1"
	"google.golang.org/grpc/status"

	"k8s.io/client-go/util/cert"

	"github.com/tripod-k8s/tripod/base/certs"
	"github.com/tripod-k8s/tripod/base/hop/trust"
	identityv1 "github.com/tripod-k8s/tripod/proto/identity/v1"
)

// authority is a service CA with certificates for services.
type authority struct {
	store *certs.Store
	ca    *certs.Authority
}

func newAuthority(t *testing.T) *authority {
	t.Helper()
	store, err := certs.Open(t.TempDir())
	require.NoError(t, err)
	ca, err := store.Authority("ca", "service-ca")
	require.NoError(t, err)
	return &authority{store, ca}
}

// trust returns the files of a service.
func (a *authority) trust(t *testing.T, service string) *trust.Options {
	t.Helper()
	_, err := a.ca.Ensure(service, certs.Leaf{
		CommonName: "system:tripod:" + service, DNSNames: []string{trust.ServerName(service)}, Server: true, Client: true,
	})
	require.NoError(t, err)
	return &trust.Options{CAFile: a.store.CertFile("ca"), CertFile: a.store.CertFile(service), KeyFile: a.store.KeyFile(service)}
}

// serve runs a server of core for aggregators, and returns its address and how to stop it.
func serve(t *testing.T, identity *trust.Options) (address string, stop func() error) {
	t.Helper()
	return serveAt(t, "127.0.0.1:0", identity, nil)
}

// serveAt serves the identity service, too, if there is one.
func serveAt(t *testing.T, address string, identity *trust.Options, service identityv1.IdentityServer) (at string, stop func() error) {
	t.Helper()
	listener, err := net.Listen("tcp", address)
	require.NoError(t, err)
	server := NewServer(identity, []string{trust.Aggregator}, noop.NewTracerProvider())
	if service != nil {
		identityv1.RegisterIdentityServer(server, service)
	}
	server.Health.SetServingStatus("", healthv1.HealthCheckResponse_SERVING)
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan error, 1)
	go func() { done <- server.Serve(ctx, listener) }()
	t.Cleanup(cancel)
	return listener.Addr().String(), func() error {
		cancel()
		return <-done
	}
}

func dial(t *testing.T, address, service string, identity *trust.Options) healthv1.HealthClient {
	t.Helper()
	return healthv1.NewHealthClient(connect(t, address, service, identity))
}

func connect(t *testing.T, address, service string, identity *trust.Options) *Conn {
	t.Helper()
	connection, err := Dial(address, service, identity, noop.NewTracerProvider())
	require.NoError(t, err)
	t.Cleanup(func() { connection.Close() })
	return connection
}

func TestWhoMayCall(t *testing.T) {
	own, other := newAuthority(t), newAuthority(t)
	address, _ := serve(t, own.trust(t, "core"))
	strange := *other.trust(t, "aggregator")
	strange.CAFile = own.trust(t, "core").CAFile

	for name, test := range map[string]struct {
		trust   *trust.Options
		service string
		refused bool
		// why is part of the error, if it is the client that refuses. What a client sees of a server that does is what its
		// socket has left.
		why string
	}{
		"the aggregator":           {own.trust(t, "aggregator"), "core", false, ""},
		"another service":          {own.trust(t, "extensions"), "core", true, ""},
		"the name with another CA": {&strange, "core", true, ""},
		"who trusts another CA":    {other.trust(t, "aggregator"), "core", true, "unknown authority"},
		"who looks for extensions": {own.trust(t, "aggregator"), "extensions", true, "core.tripod-system.svc"},
	} {
		t.Run(name, func(t *testing.T) {
			ctx, cancel := context.WithTimeout(t.Context(), 10*time.Second)
			defer cancel()
			_, err := dial(t, address, test.service, test.trust).Check(ctx, &healthv1.HealthCheckRequest{})
			switch {
			case !test.refused && err != nil:
				t.Error(err)
			case test.refused && (status.Code(err) != codes.Unavailable || !strings.Contains(err.Error(), test.why)):
				t.Errorf("error is %v", err)
			}
		})
	}
}

func TestNobodyWithoutCertificateOrWithOldTLSMayCall(t *testing.T) {
	own := newAuthority(t)
	address, _ := serve(t, own.trust(t, "core"))
	identity := own.trust(t, "aggregator")
	certificate, err := tls.LoadX509KeyPair(identity.CertFile, identity.KeyFile)
	require.NoError(t, err)
	cas, err := cert.NewPool(identity.CAFile)
	require.NoError(t, err)
	for name, config := range map[string]*tls.Config{
		"no certificate": {MinVersion: tls.VersionTLS13},
		"TLS 1.2":        {MaxVersion: tls.VersionTLS12, Certificates: []tls.Certificate{certificate}},
	} {
		t.Run(name, func(t *testing.T) {
			config.RootCAs, config.ServerName = cas, trust.ServerName("core")
			connection, err := grpc.NewClient(address, grpc.WithTransportCredentials(credentials.NewTLS(config)))
			require.NoError(t, err)
			defer connection.Close()
			_, err = healthv1.NewHealthClient(connection).Check(t.Context(), &healthv1.HealthCheckRequest{})
			assert.Equal(t, codes.Unavailable, status.Code(err), "error is %v", err)
		})
	}
}

func TestFilesThatCannotBeReadAreAnErrorAtOnce(t *testing.T) {
	missing := filepath.Join(t.TempDir(), "missing")
	for _, change := range []func(*trust.Options){
		func(o *trust.Options) { o.CertFile = missing },
		func(o *trust.Options) { o.CAFile = missing },
	} {
		trust := *newAuthority(t).trust(t, "aggregator")
		change(&trust)
		if _, err := Dial("127.0.0.1:1", "core", &trust, noop.NewTracerProvider()); err == nil || !strings.Contains(err.Error(), missing) {
			t.Errorf("error is %v", err)
		}
	}
}

// A client may live longer than the CA that it trusted first.
func TestAConnectionIsMadeAgainWithNewFiles(t *testing.T) {
	before, after := newAuthority(t), newAuthority(t)
	address, stop := serve(t, before.trust(t, "core"))
	trust := before.trust(t, "aggregator")
	client := dial(t, address, "core", trust)
	if _, err := client.Check(t.Context(), &healthv1.HealthCheckRequest{}); err != nil {
		t.Fatal(err)
	}
	require.NoError(t, stop())
	replace(t, trust, after.trust(t, "aggregator"))
	serveAt(t, address, after.trust(t, "core"), nil)
	if _, err := client.Check(t.Context(), &healthv1.HealthCheckRequest{}, grpc.WaitForReady(true)); err != nil {
		t.Error(err)
	}
}

// replace gives the files of one service the content of others.
func replace(t *testing.T, files, by *trust.Options) {
	t.Helper()
	for from, to := range map[string]string{by.CAFile: files.CAFile, by.CertFile: files.CertFile, by.KeyFile: files.KeyFile} {
		content, err := os.ReadFile(from)
		require.NoError(t, err)
		require.NoError(t, os.WriteFile(to, content, 0o600))
	}
}

func TestNewCertificatesAndCAsAreInForceWithoutRestart(t *testing.T) {
	before, after := newAuthority(t), newAuthority(t)
	server := before.trust(t, "core")
	address, _ := serve(t, server)
	newClient := after.trust(t, "aggregator")
	if _, err := dial(t, address, "core", newClient).Check(t.Context(), &healthv1.HealthCheckRequest{}); err == nil {
		t.Fatal("a certificate of a CA that nobody knows is taken")
	}
	replace(t, server, after.trust(t, "core"))
	if _, err := dial(t, address, "core", newClient).Check(t.Context(), &healthv1.HealthCheckRequest{}); err != nil {
		t.Error(err)
	}
}

func TestTheServerStopsWithStreamsThatGoOn(t *testing.T) {
	own := newAuthority(t)
	address, stop := serve(t, own.trust(t, "core"))
	stream, err := dial(t, address, "core", own.trust(t, "aggregator")).Watch(t.Context(), &healthv1.HealthCheckRequest{})
	require.NoError(t, err)
	expect := func(want healthv1.HealthCheckResponse_ServingStatus) {
		t.Helper()
		if message, err := stream.Recv(); err != nil || message.GetStatus() != want {
			t.Errorf("got %v, %v; want %s", message, err, want)
		}
	}
	expect(healthv1.HealthCheckResponse_SERVING)
	assert.NoError(t, stop())
	expect(healthv1.HealthCheckResponse_NOT_SERVING)
	if _, err := stream.Recv(); err == nil {
		t.Error("the stream goes on")
	}
}
