// Copyright The Tripod Authors.
// SPDX-License-Identifier: Apache-2.0

package launch

import (
	"context"
	"crypto/tls"
	"errors"
	"net"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/tripod-k8s/tripod/internal/pki"
	"github.com/tripod-k8s/tripod/internal/supervisor"
)

func openStore(t *testing.T) *pki.Store {
	t.Helper()
	store, err := pki.Open(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	if err := ensureTrust(store); err != nil {
		t.Fatal(err)
	}
	return store
}

// connect makes a TLS connection from one service to another.
func connect(t *testing.T, store *pki.Store, from, to string) error {
	t.Helper()
	client, err := ClientTLS(store, serviceCA, from)
	if err != nil {
		t.Fatal(err)
	}
	pair, err := tls.LoadX509KeyPair(store.CertFile(to), store.KeyFile(to))
	if err != nil {
		t.Fatal(err)
	}
	server := &tls.Config{Certificates: []tls.Certificate{pair}, ClientCAs: client.RootCAs, ClientAuth: tls.RequireAndVerifyClientCert}
	listener, err := tls.Listen("tcp", "127.0.0.1:0", server)
	if err != nil {
		t.Fatal(err)
	}
	defer listener.Close() //nolint:errcheck // only for this test
	accepted := make(chan error, 1)
	go func() {
		connection, err := listener.Accept()
		if err != nil {
			accepted <- err
			return
		}
		defer connection.Close() //nolint:errcheck // only for this test
		accepted <- connection.(*tls.Conn).HandshakeContext(t.Context())
	}()
	dialer := tls.Dialer{Config: client}
	connection, err := dialer.DialContext(t.Context(), "tcp", listener.Addr().String())
	if err != nil {
		return errors.Join(err, listener.Close(), <-accepted)
	}
	defer connection.Close() //nolint:errcheck // only for this test
	return <-accepted
}

func TestServicesTrustEachOther(t *testing.T) {
	store := openStore(t)
	for from, want := range map[string]string{
		Aggregator: "system:tripod:aggregator", Extensions: "system:tripod:extensions", Core: "system:tripod:core",
	} {
		if err := connect(t, store, from, Core); err != nil {
			t.Errorf("%s cannot connect to core: %v", from, err)
		}
		cert, err := tls.LoadX509KeyPair(store.CertFile(from), store.KeyFile(from))
		if err != nil {
			t.Fatal(err)
		}
		if got := cert.Leaf.Subject.CommonName; got != want {
			t.Errorf("%s is called %q, want %q", from, got, want)
		}
	}
}

func TestServicesDoNotTrustThoseOfAnotherInstance(t *testing.T) {
	store, other := openStore(t), openStore(t)
	for _, path := range []func(string) string{store.CertFile, store.KeyFile} {
		name := filepath.Base(path(Extensions))
		data, err := os.ReadFile(filepath.Join(filepath.Dir(other.CertFile(Extensions)), name))
		if err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path(Extensions), data, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	if err := connect(t, store, Extensions, Core); err == nil {
		t.Error("core takes a certificate of another authority")
	}
}

func TestClientUsesRenewedCertificate(t *testing.T) {
	store := openStore(t)
	config, err := ClientTLS(store, serviceCA, Aggregator)
	if err != nil {
		t.Fatal(err)
	}
	before, err := config.GetClientCertificate(nil)
	if err != nil {
		t.Fatal(err)
	}
	for _, path := range []string{store.CertFile(Aggregator), store.KeyFile(Aggregator)} {
		if err := os.Remove(path); err != nil {
			t.Fatal(err)
		}
	}
	if err := (&Services{store: store}).Renew(); err != nil {
		t.Fatal(err)
	}
	after, err := config.GetClientCertificate(nil)
	if err != nil {
		t.Fatal(err)
	}
	if before.Leaf.Equal(after.Leaf) {
		t.Error("the client still presents the certificate from before")
	}
}

func TestServicesFindEachOther(t *testing.T) {
	services := &Services{store: openStore(t), binaries: map[string]string{}, grpc: map[string]*Port{}, probes: map[string]*Port{}}
	if err := services.reservePorts(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(services.Release)
	extra := []string{"--v=4"}
	core, extensions := services.Core(6443, extra), services.Extensions(extra)
	aggregator := services.Aggregator("https://127.0.0.1:6443", supervisor.NewHTTPProbe("", nil), extra)
	for _, want := range []struct {
		process supervisor.Process
		args    []string
	}{
		{core, []string{"--secure-port=" + services.core.Number(), "--bind-address=127.0.0.1", "--advertise-port=6443"}},
		{extensions, []string{"--secure-port=" + services.extensions.Number(), "--core-servers=" + core.Address}},
		{aggregator, []string{"--core-servers=" + core.Address, "--extensions-servers=" + extensions.Address}},
	} {
		for _, arg := range append(want.args, "--service-ca-file="+services.store.CertFile(serviceCA)) {
			if !slices.Contains(want.process.Args, arg) {
				t.Errorf("%s is started without %s: %q", want.process.Component, arg, want.process.Args)
			}
		}
		if last := want.process.Args[len(want.process.Args)-1]; last != "--v=4" {
			t.Errorf("%s has %q after the flags that were asked for", want.process.Component, last)
		}
	}
}

func TestPortsOfServicesAreFreeWhenTheyStart(t *testing.T) {
	services := &Services{store: openStore(t), binaries: map[string]string{}, grpc: map[string]*Port{}, probes: map[string]*Port{}}
	if err := services.reservePorts(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(services.Release)
	services.Core(6443, nil).BeforeStart()
	listener, err := net.Listen("tcp", services.core.address)
	if err != nil {
		t.Fatal(err)
	}
	if err := listener.Close(); err != nil {
		t.Error(err)
	}
}

func TestBinaryTellsItsVersion(t *testing.T) {
	path := filepath.Join(t.TempDir(), "binary")
	for output, want := range map[string]string{"Kubernetes v1.2.3": "v1.2.3", "": ""} {
		if err := os.WriteFile(path, []byte("#!/bin/sh\n[ \"$1\" = --version ] && echo "+output+"\n"), 0o700); err != nil {
			t.Fatal(err)
		}
		if got := binaryVersion(path)(context.Background()); got != want {
			t.Errorf("version is %q, want %q", got, want)
		}
	}
	if got := binaryVersion(path + "-missing")(context.Background()); got != "" {
		t.Errorf("version of no binary is %q", got)
	}
}

func TestMissingBinaryIsNamed(t *testing.T) {
	_, err := binary("tripod-nothing")
	if err == nil || !strings.Contains(err.Error(), "tripod-nothing must be beside") {
		t.Errorf("error is %v", err)
	}
}
