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

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"

	"github.com/tripod-k8s/tripod/base/certs"
)

func newCertificates(t *testing.T) *certs.Store {
	t.Helper()
	store, err := certs.Open(t.TempDir())
	require.NoError(t, err)
	require.NoError(t, ensureCertificates(store, []string{"localhost"}, []net.IP{net.IPv4(127, 0, 0, 1)}, nil))
	return store
}

// serverTLS has a server be the aggregator of the instance.
func serverTLS(t *testing.T, store *certs.Store) *tls.Config {
	t.Helper()
	pair, err := tls.LoadX509KeyPair(store.CertFile(apiserver), store.KeyFile(apiserver))
	require.NoError(t, err)
	bundle, err := os.ReadFile(store.CertFile(clusterCA))
	require.NoError(t, err)
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
		require.NoError(t, err)
		before[name] = data
	}
	require.NoError(t, ensureCertificates(store, []string{"localhost"}, []net.IP{net.IPv4(127, 0, 0, 1)}, nil))
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
	require.NoError(t, writeKubeconfig(path, server.URL, store))
	info, err := os.Stat(path)
	require.NoError(t, err)
	if mode := info.Mode().Perm(); mode != 0o600 {
		t.Errorf("the kubeconfig has mode %o", mode)
	}
	raw, err := clientcmd.LoadFromFile(path)
	require.NoError(t, err)
	assert.Equal(t, "tripod", raw.CurrentContext, "the context")
	config, err := clientcmd.BuildConfigFromFlags("", path)
	require.NoError(t, err)
	client, err := rest.HTTPClientFor(config)
	require.NoError(t, err)
	response, err := client.Get(config.Host)
	require.NoError(t, err)
	defer response.Body.Close()
	assert.Equal(t, http.StatusNoContent, response.StatusCode, "answer is %s", response.Status)
}
