// Copyright The Tripod Authors.
// SPDX-License-Identifier: Apache-2.0

package takeover

import (
	"fmt"
	"net"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	clientv3 "go.etcd.io/etcd/client/v3"

	"github.com/tripod-k8s/tripod/admin/etcd/access"
	"github.com/tripod-k8s/tripod/admin/etcd/access/accesstest"
	"github.com/tripod-k8s/tripod/base/certs"
	"github.com/tripod-k8s/tripod/test/framework"
)

// kubeadmEtcd is an etcd as kubeadm runs it: it knows clients by certificates of a CA of its own.
type kubeadmEtcd struct {
	url   string
	store *certs.Store
	// flags are those of kube-apiserver, except for the address.
	flags []string
}

// withCertificates starts the etcd of a cluster again, on the same data, as kubeadm would run it.
func withCertificates(t *testing.T, environment *framework.Environment, server *framework.Stock) *kubeadmEtcd {
	t.Helper()
	require.NoError(t, server.Etcd.Stop())
	store, err := certs.Open(filepath.Join(server.DataDir, "etcd-pki"))
	require.NoError(t, err)
	ca, err := store.Authority("ca", "etcd-ca")
	require.NoError(t, err)
	for name, leaf := range map[string]certs.Leaf{
		"server":                {CommonName: "node", IPs: []net.IP{net.IPv4(127, 0, 0, 1)}, Server: true, Client: true},
		"apiserver-etcd-client": {CommonName: "kube-apiserver-etcd-client", Client: true},
	} {
		_, err := ca.Ensure(name, leaf)
		require.NoError(t, err)
	}
	port, err := framework.FreePort()
	require.NoError(t, err)
	peer, err := framework.FreePort()
	require.NoError(t, err)
	e := &kubeadmEtcd{url: fmt.Sprintf("https://127.0.0.1:%d", port), store: store}
	e.flags = []string{
		"--etcd-cafile=" + ca.File(),
		"--etcd-certfile=" + store.CertFile("apiserver-etcd-client"), "--etcd-keyfile=" + store.KeyFile("apiserver-etcd-client"),
		"--etcd-compaction-interval=0", "--etcd-db-metric-poll-interval=0",
	}
	_, err = environment.Start(framework.Command{
		Name: "etcd-of-kubeadm", Path: environment.Binary("test-assets/etcd"), Dir: server.DataDir, Args: []string{
			"--data-dir=" + filepath.Join(server.DataDir, "etcd"), "--unsafe-no-fsync", "--log-level=warn",
			"--listen-client-urls=" + e.url, "--advertise-client-urls=" + e.url, fmt.Sprintf("--listen-peer-urls=http://127.0.0.1:%d", peer),
			"--cert-file=" + store.CertFile("server"), "--key-file=" + store.KeyFile("server"), "--client-cert-auth", "--trusted-ca-file=" + ca.File(),
			"--auto-compaction-mode=periodic", "--auto-compaction-retention=5m",
		},
	})
	require.NoError(t, err)
	return e
}

// as returns a client with a certificate of a directory.
func (e *kubeadmEtcd) as(t *testing.T, store *certs.Store, name string) *clientv3.Client {
	t.Helper()
	client, err := access.Connect([]string{e.url}, e.store.CertFile("ca"), store.CertFile(name), store.KeyFile(name))
	require.NoError(t, err)
	t.Cleanup(func() { client.Close() })
	return client
}

// onlyOwnKeys checks what a thief can do with the certificate of each static pod, and with that of kube-apiserver, in an etcd with users.
func (e *kubeadmEtcd) onlyOwnKeys(t *testing.T, certDir string) {
	t.Helper()
	made, err := certs.Open(certDir)
	require.NoError(t, err)
	root := e.as(t, made, "etcd-root")
	for service, target := range map[string]accesstest.Target{
		"core":       {User: access.Core, Own: "/registry/configmaps/default/own", Directory: "/registry/example.com/boats/victim"},
		"extensions": {User: access.Extensions, Own: "/registry/example.com/boats/default/own", Directory: "/registry/secrets/victim"},
		"aggregator": {User: access.Aggregator, Own: "/registry/apiregistration.k8s.io/apiservices/own", Directory: "/registry/secrets/victim"},
	} {
		target.Forbidden = target.Directory + "/a"
		target.Lease, err = accesstest.Plant(t.Context(), root, target.Forbidden)
		require.NoError(t, err)
		client := e.as(t, made, "etcd-"+service)
		allowed, err := accesstest.Allowed(t.Context(), client, target)
		require.NoError(t, err)
		expected, err := accesstest.Expected(t.Context(), client)
		require.NoError(t, err)
		assert.Equal(t, expected, allowed, "what etcd lets the static pod of %s do", service)
		for _, key := range []string{target.Forbidden, target.Own} {
			_, err = root.Delete(t.Context(), key)
			require.NoError(t, err)
		}
	}
	_, err = e.as(t, e.store, "apiserver-etcd-client").Get(t.Context(), "/registry/configmaps/", clientv3.WithPrefix())
	require.Error(t, err, "kubeadm's certificate, which no pod of Tripod has, is no user")
}
