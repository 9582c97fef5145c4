// Copyright The Tripod Authors.
// SPDX-License-Identifier: Apache-2.0

package replicas

import (
	"context"
	"crypto/tls"
	"errors"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/tripod-k8s/tripod/base/certs"
	"github.com/tripod-k8s/tripod/base/hop/addresses"
	"github.com/tripod-k8s/tripod/local/process"
)

func openStore(t *testing.T) *certs.Store {
	t.Helper()
	store, err := certs.Open(t.TempDir())
	require.NoError(t, err)
	require.NoError(t, EnsureTrust(store))
	return store
}

// connect makes a TLS connection from one service to another.
func connect(t *testing.T, store *certs.Store, from, to string) error {
	t.Helper()
	client, err := ClientTLS(store, serviceCA, from)
	require.NoError(t, err)
	pair, err := tls.LoadX509KeyPair(store.CertFile(to), store.KeyFile(to))
	require.NoError(t, err)
	server := &tls.Config{Certificates: []tls.Certificate{pair}, ClientCAs: client.RootCAs, ClientAuth: tls.RequireAndVerifyClientCert}
	listener, err := tls.Listen("tcp", "127.0.0.1:0", server)
	require.NoError(t, err)
	defer listener.Close()
	accepted := make(chan error, 1)
	go func() {
		connection, err := listener.Accept()
		if err != nil {
			accepted <- err
			return
		}
		defer connection.Close()
		accepted <- connection.(*tls.Conn).HandshakeContext(t.Context())
	}()
	dialer := tls.Dialer{Config: client}
	connection, err := dialer.DialContext(t.Context(), "tcp", listener.Addr().String())
	if err != nil {
		return errors.Join(err, listener.Close(), <-accepted)
	}
	defer connection.Close()
	return <-accepted
}

func TestServicesTrustEachOther(t *testing.T) {
	store := openStore(t)
	for from, want := range map[string]string{
		Aggregator: "system:tripod:aggregator", Extensions: "system:tripod:extensions", Core: "system:tripod:core",
	} {
		assert.NoError(t, connect(t, store, from, Core), "%s cannot connect to core", from)
		cert, err := tls.LoadX509KeyPair(store.CertFile(from), store.KeyFile(from))
		require.NoError(t, err)
		assert.Equal(t, want, cert.Leaf.Subject.CommonName, "%s is called", from)
	}
}

func TestAdditionalServicesHaveCertificatesOfTheirOwn(t *testing.T) {
	store := openStore(t)
	before, err := os.ReadFile(store.CertFile(serviceCA))
	require.NoError(t, err)
	require.NoError(t, EnsureTrust(store, "wardle", "ca")) // the second would be service-ca otherwise
	after, err := os.ReadFile(store.CertFile(serviceCA))
	require.NoError(t, err)
	assert.Equal(t, before, after)
	for _, name := range []string{"wardle", "ca"} {
		certificate := CertificateOf(name)
		require.NoError(t, connect(t, store, certificate, Core), "%s cannot connect to core", name)
		cert, err := tls.LoadX509KeyPair(store.CertFile(certificate), store.KeyFile(certificate))
		require.NoError(t, err)
		assert.Equal(t, "system:tripod:"+name, cert.Leaf.Subject.CommonName)
		assert.Contains(t, cert.Leaf.DNSNames, name+".tripod-system.svc")
	}
}

func TestServicesDoNotTrustThoseOfAnotherInstance(t *testing.T) {
	store, other := openStore(t), openStore(t)
	for _, path := range []func(string) string{store.CertFile, store.KeyFile} {
		name := filepath.Base(path(Extensions))
		data, err := os.ReadFile(filepath.Join(filepath.Dir(other.CertFile(Extensions)), name))
		require.NoError(t, err)
		require.NoError(t, os.WriteFile(path(Extensions), data, 0o600))
	}
	if err := connect(t, store, Extensions, Core); err == nil {
		t.Error("core takes a certificate of another authority")
	}
}

func TestClientUsesRenewedCertificate(t *testing.T) {
	store := openStore(t)
	config, err := ClientTLS(store, serviceCA, Aggregator)
	require.NoError(t, err)
	before, err := config.GetClientCertificate(nil)
	require.NoError(t, err)
	for _, path := range []string{store.CertFile(Aggregator), store.KeyFile(Aggregator)} {
		require.NoError(t, os.Remove(path))
	}
	require.NoError(t, (&Services{store: store}).Renew())
	after, err := config.GetClientCertificate(nil)
	require.NoError(t, err)
	if before.Leaf.Equal(after.Leaf) {
		t.Error("the client still presents the certificate from before")
	}
}

func newReplica(t *testing.T, service, name string) *Replica {
	t.Helper()
	r, err := NewReplica(service, name)
	require.NoError(t, err)
	t.Cleanup(r.Release)
	return r
}

func TestServicesFindEachOther(t *testing.T) {
	services := &Services{store: openStore(t), binaries: map[string]string{}}
	cores := []*Replica{newReplica(t, Core, "core-0"), newReplica(t, Core, "core-1")}
	extensions, aggregator := newReplica(t, Extensions, "extensions-0"), newReplica(t, Aggregator, "aggregator-0")
	backends := addresses.Backends{Core: Locate(cores), Extensions: Locate([]*Replica{extensions})}
	file := filepath.Join(t.TempDir(), "backends.yaml")
	assert.NoError(t, backends.Write(file), "the file cannot hold where the backends are")

	const clients = "https://127.0.0.1:6443"
	args := []string{"--v=4"}
	first, second := services.Core(cores[0], 6443, file, args), services.Core(cores[1], 6443, file, args)
	custom, public := services.Backend(extensions, file, args), services.Aggregator(aggregator, clients, file, args)
	if servers := []string{first.Address, second.Address}; !slices.Equal(backends.Core.Servers, servers) {
		t.Errorf("core is reported at %q, and is at %q", backends.Core.Servers, servers)
	}
	for _, want := range []struct {
		process process.Process
		name    string
		address string
		args    []string
	}{
		{first, "core-0", cores[0].URL(), []string{
			"--secure-port=" + cores[0].Port(), "--grpc-bind-address=" + backends.Core.GRPC[0], "--bind-address=127.0.0.1", "--advertise-port=6443",
			"--backends-file=" + file,
		}},
		{second, "core-1", cores[1].URL(), []string{"--secure-port=" + cores[1].Port(), "--grpc-bind-address=" + backends.Core.GRPC[1]}},
		{custom, "extensions-0", extensions.URL(), []string{
			"--secure-port=" + extensions.Port(), "--grpc-bind-address=" + backends.Extensions.GRPC[0],
			"--backends-file=" + file,
		}},
		{public, "aggregator-0", clients, []string{"--backends-file=" + file}},
	} {
		if want.process.Replica != want.name || want.process.Address != want.address {
			t.Errorf("%s is at %s, want %s at %s", want.process.Replica, want.process.Address, want.name, want.address)
		}
		for _, arg := range append(want.args, "--service-ca-file="+services.store.CertFile(serviceCA)) {
			assert.Contains(t, want.process.Args, arg, "%s is started without", want.name)
		}
		if last := want.process.Args[len(want.process.Args)-1]; last != "--v=4" {
			t.Errorf("%s has %q after the flags that were asked for", want.name, last)
		}
	}
}

func TestReplicasAreProbedAtAPortOfTheirOwn(t *testing.T) {
	services := &Services{store: openStore(t), binaries: map[string]string{}}
	replica := newReplica(t, Aggregator, "aggregator-0")
	process := services.Aggregator(replica, "https://127.0.0.1:6443", "backends.yaml", nil)
	assert.Contains(t, process.Args, "--probe-bind-address="+replica.probes.Address(), "port for probes")
	replica.Release()
	listener, err := net.Listen("tcp", replica.probes.Address())
	require.NoError(t, err)
	server := http.Server{Handler: http.HandlerFunc(func(http.ResponseWriter, *http.Request) {}), ReadHeaderTimeout: time.Second}
	served := make(chan error, 1)
	go func() { served <- server.Serve(listener) }()
	assert.NoError(t, process.Ready(t.Context()))
	assert.NoError(t, server.Close())
	assert.ErrorIs(t, <-served, http.ErrServerClosed)
	if err := process.Ready(t.Context()); err == nil {
		t.Error("ready although nobody answers")
	}
}

func TestPortsOfReplicasAreFreeWhenTheyStart(t *testing.T) {
	services := &Services{store: openStore(t), binaries: map[string]string{}}
	replica := newReplica(t, Core, "core-0")
	services.Core(replica, 6443, "backends.yaml", nil).BeforeStart()
	for _, port := range []*Port{replica.serving, replica.grpc, replica.probes} {
		listener, err := net.Listen("tcp", port.Address())
		require.NoError(t, err)
		assert.NoError(t, listener.Close())
	}
}

func TestBinaryTellsItsVersion(t *testing.T) {
	path := filepath.Join(t.TempDir(), "binary")
	for output, want := range map[string]string{"Kubernetes v1.2.3": "v1.2.3", "": ""} {
		require.NoError(t, os.WriteFile(path, []byte("#!/bin/sh\n[ \"$1\" = --version ] && echo "+output+"\n"), 0o700))
		assert.Equal(t, want, BinaryVersion(path)(context.Background()), "version")
	}
	assert.Empty(t, BinaryVersion(path+"-missing")(context.Background()), "version of no binary")
}

func TestMissingBinaryIsNamed(t *testing.T) {
	_, err := Binary("tripod-nothing")
	assert.ErrorContains(t, err, "tripod-nothing must be beside")
}
