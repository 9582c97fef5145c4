// Copyright The Tripod Authors.
// SPDX-License-Identifier: Apache-2.0

package up

import (
	"bytes"
	"crypto/tls"
	"crypto/x509"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"testing"

	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"

	"github.com/tripod-k8s/tripod/local/certs"
)

func newCertificates(t *testing.T) *certs.Store {
	t.Helper()
	store, err := certs.Open(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	if err := ensureCertificates(store, []string{"localhost"}, []net.IP{net.IPv4(127, 0, 0, 1)}); err != nil {
		t.Fatal(err)
	}
	return store
}

// serverTLS has a server be the aggregator of the instance.
func serverTLS(t *testing.T, store *certs.Store) *tls.Config {
	t.Helper()
	pair, err := tls.LoadX509KeyPair(store.CertFile(apiserver), store.KeyFile(apiserver))
	if err != nil {
		t.Fatal(err)
	}
	bundle, err := os.ReadFile(store.CertFile(clusterCA))
	if err != nil {
		t.Fatal(err)
	}
	clients := x509.NewCertPool()
	clients.AppendCertsFromPEM(bundle)
	return &tls.Config{Certificates: []tls.Certificate{pair}, ClientAuth: tls.RequireAndVerifyClientCert, ClientCAs: clients}
}

func TestCertificatesAreMadeOnce(t *testing.T) {
	store := newCertificates(t)
	before := map[string][]byte{}
	for _, name := range []string{
		clusterCA, apiserver, admin, kubeletClient, frontProxyCA, frontProxyClient, etcdCA, etcdServer, etcdClient, serviceAccounts,
	} {
		data, err := os.ReadFile(store.KeyFile(name))
		if err != nil {
			t.Fatal(err)
		}
		before[name] = data
	}
	if err := ensureCertificates(store, []string{"localhost"}, nil); err != nil {
		t.Fatal(err)
	}
	for name, key := range before {
		if data, err := os.ReadFile(store.KeyFile(name)); err != nil || !bytes.Equal(data, key) {
			t.Errorf("%s has changed, %v", name, err)
		}
	}
}

func TestKubeconfigIsOfAnAdministrator(t *testing.T) {
	store := newCertificates(t)
	server := httptest.NewUnstartedServer(http.HandlerFunc(func(w http.ResponseWriter, req *http.Request) {
		subject := req.TLS.PeerCertificates[0].Subject
		if len(subject.Organization) != 1 || subject.Organization[0] != "system:masters" {
			t.Errorf("groups are %v", subject.Organization)
		}
		w.WriteHeader(http.StatusNoContent)
	}))
	server.TLS = serverTLS(t, store)
	server.StartTLS()
	defer server.Close()

	path := filepath.Join(t.TempDir(), "kubeconfig")
	if err := writeKubeconfig(path, server.URL, store); err != nil {
		t.Fatal(err)
	}
	info, err := os.Stat(path)
	if err != nil {
		t.Fatal(err)
	}
	if mode := info.Mode().Perm(); mode != 0o600 {
		t.Errorf("the kubeconfig has mode %o", mode)
	}
	raw, err := clientcmd.LoadFromFile(path)
	if err != nil {
		t.Fatal(err)
	}
	if raw.CurrentContext != "tripod" {
		t.Errorf("the context is %q", raw.CurrentContext)
	}
	config, err := clientcmd.BuildConfigFromFlags("", path)
	if err != nil {
		t.Fatal(err)
	}
	client, err := rest.HTTPClientFor(config)
	if err != nil {
		t.Fatal(err)
	}
	response, err := client.Get(config.Host)
	if err != nil {
		t.Fatal(err)
	}
	defer response.Body.Close() //nolint:errcheck // it is empty
	if response.StatusCode != http.StatusNoContent {
		t.Errorf("answer is %s", response.Status)
	}
}
