// Copyright The Tripod Authors.
// SPDX-License-Identifier: Apache-2.0

package servicegrpc

import (
	"context"
	"net"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"go.opentelemetry.io/otel/trace/noop"
	"google.golang.org/grpc/codes"
	healthv1 "google.golang.org/grpc/health/grpc_health_v1"
	"google.golang.org/grpc/status"

	"github.com/tripod-k8s/tripod/internal/pki"
	"github.com/tripod-k8s/tripod/internal/servicetrust"
)

// authority is a service CA with certificates for services.
type authority struct {
	store *pki.Store
	ca    *pki.Authority
}

func newAuthority(t *testing.T) *authority {
	t.Helper()
	store, err := pki.Open(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	ca, err := store.Authority("ca", "service-ca")
	if err != nil {
		t.Fatal(err)
	}
	return &authority{store, ca}
}

// trust returns the files of a service.
func (a *authority) trust(t *testing.T, service string) *servicetrust.Options {
	t.Helper()
	_, err := a.ca.Ensure(service, pki.Leaf{
		CommonName: "system:tripod:" + service, DNSNames: []string{servicetrust.ServerName(service)}, Server: true, Client: true,
	})
	if err != nil {
		t.Fatal(err)
	}
	return &servicetrust.Options{CAFile: a.store.CertFile("ca"), CertFile: a.store.CertFile(service), KeyFile: a.store.KeyFile(service)}
}

// serve runs a server of core for aggregators, and returns its address and how to stop it.
func serve(t *testing.T, trust *servicetrust.Options) (address string, stop func() error) {
	t.Helper()
	listener, err := (&Options{BindAddress: "127.0.0.1:0"}).Listen()
	if err != nil {
		t.Fatal(err)
	}
	server := NewServer(trust, []string{servicetrust.Aggregator}, noop.NewTracerProvider())
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

func dial(t *testing.T, address, service string, trust *servicetrust.Options) healthv1.HealthClient {
	t.Helper()
	connection, err := Dial(address, service, trust, noop.NewTracerProvider())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { connection.Close() }) //nolint:errcheck // only for this test
	return healthv1.NewHealthClient(connection)
}

func TestWhoMayCall(t *testing.T) {
	own, other := newAuthority(t), newAuthority(t)
	address, _ := serve(t, own.trust(t, "core"))
	noCertificate := *own.trust(t, "aggregator")
	noCertificate.CertFile = filepath.Join(t.TempDir(), "missing")
	strange := *other.trust(t, "aggregator")
	strange.CAFile = own.trust(t, "core").CAFile

	for name, test := range map[string]struct {
		trust   *servicetrust.Options
		service string
		// refused is part of the error, empty if there must be none.
		refused string
	}{
		"the aggregator":           {own.trust(t, "aggregator"), "core", ""},
		"another service":          {own.trust(t, "extensions"), "core", "certificate"},
		"nobody":                   {&noCertificate, "core", "missing"},
		"the name with another CA": {&strange, "core", "certificate"},
		"who trusts another CA":    {other.trust(t, "aggregator"), "core", "unknown authority"},
		"who looks for extensions": {own.trust(t, "aggregator"), "extensions", "core.tripod-system.svc"},
	} {
		t.Run(name, func(t *testing.T) {
			ctx, cancel := context.WithTimeout(t.Context(), 10*time.Second)
			defer cancel()
			_, err := dial(t, address, test.service, test.trust).Check(ctx, &healthv1.HealthCheckRequest{})
			switch {
			case test.refused == "" && err != nil:
				t.Error(err)
			case test.refused != "" && (status.Code(err) != codes.Unavailable || !strings.Contains(err.Error(), test.refused)):
				t.Errorf("error is %v", err)
			}
		})
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
	newServer := after.trust(t, "core")
	for from, to := range map[string]string{newServer.CAFile: server.CAFile, newServer.CertFile: server.CertFile, newServer.KeyFile: server.KeyFile} {
		content, err := os.ReadFile(from)
		if err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(to, content, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	if _, err := dial(t, address, "core", newClient).Check(t.Context(), &healthv1.HealthCheckRequest{}); err != nil {
		t.Error(err)
	}
}

func TestTheServerStopsWithStreamsThatGoOn(t *testing.T) {
	own := newAuthority(t)
	address, stop := serve(t, own.trust(t, "core"))
	stream, err := dial(t, address, "core", own.trust(t, "aggregator")).Watch(t.Context(), &healthv1.HealthCheckRequest{})
	if err != nil {
		t.Fatal(err)
	}
	expect := func(want healthv1.HealthCheckResponse_ServingStatus) {
		t.Helper()
		if message, err := stream.Recv(); err != nil || message.GetStatus() != want {
			t.Errorf("got %v, %v; want %s", message, err, want)
		}
	}
	expect(healthv1.HealthCheckResponse_SERVING)
	if err := stop(); err != nil {
		t.Error(err)
	}
	expect(healthv1.HealthCheckResponse_NOT_SERVING)
	if _, err := stream.Recv(); err == nil {
		t.Error("the stream goes on")
	}
}

func TestBusyPortIsOneError(t *testing.T) {
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer listener.Close() //nolint:errcheck // nothing was written
	if _, err := (&Options{BindAddress: listener.Addr().String()}).Listen(); err == nil || !strings.Contains(err.Error(), "--grpc-bind-address") {
		t.Errorf("error is %v", err)
	}
	if nothing, err := (&Options{}).Listen(); nothing != nil || err != nil {
		t.Errorf("without an address: %v, %v", nothing, err)
	}
	if errs := (&Options{BindAddress: "7444"}).Validate(); len(errs) != 1 {
		t.Errorf("errors for no host:port are %v", errs)
	}
}
