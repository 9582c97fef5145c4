// Copyright The Tripod Authors.
// SPDX-License-Identifier: Apache-2.0

package hosting

import (
	"context"
	"fmt"
	"os"
	"path/filepath"

	"github.com/stretchr/testify/require"
	"go.etcd.io/etcd/client/pkg/v3/transport"
	clientv3 "go.etcd.io/etcd/client/v3"
	"go.uber.org/zap"

	"github.com/tripod-k8s/tripod/test/framework"
)

// etcd starts an etcd with copies of the certificates in the directory pki of the pod. It returns the URL of etcd, and the directory of the
// copies, which also has a certificate of the user root.
func (h *host) etcd(pki string) (url, own string) {
	h.t.Helper()
	own = filepath.Join(h.env.Dir, "etcd-pki")
	require.NoError(h.t, os.Mkdir(own, 0o700))
	for _, name := range []string{"ca.crt", "ca.key", "server.crt", "server.key"} {
		data, err := os.ReadFile(filepath.Join(h.path(pki), name))
		require.NoError(h.t, err)
		require.NoError(h.t, os.WriteFile(filepath.Join(own, name), data, 0o600))
	}
	h.etcdUser(own, own, "root", "root")
	url = fmt.Sprintf("https://127.0.0.1:%d", freePort(h.t))
	peer := fmt.Sprintf("http://127.0.0.1:%d", freePort(h.t))
	_, err := h.env.Start(framework.Command{
		Name: "etcd", Path: h.env.Binary("test-assets/etcd"),
		Args: []string{
			"--data-dir=" + filepath.Join(h.env.Dir, "etcd-data"), "--unsafe-no-fsync", "--log-level=warn",
			"--listen-client-urls=" + url, "--advertise-client-urls=" + url,
			"--listen-peer-urls=" + peer, "--initial-advertise-peer-urls=" + peer, "--initial-cluster=default=" + peer,
			"--cert-file=" + filepath.Join(own, "server.crt"), "--key-file=" + filepath.Join(own, "server.key"),
			"--client-cert-auth", "--trusted-ca-file=" + filepath.Join(own, "ca.crt"),
		},
	})
	require.NoError(h.t, err)
	framework.Eventually(h.t, "etcd answers", func(ctx context.Context) error {
		_, err := h.etcdClient(url, own).Get(ctx, "a")
		return err
	})
	return url, own
}

// etcdClient returns a client of the user root.
func (h *host) etcdClient(url, own string) *clientv3.Client {
	h.t.Helper()
	files := transport.TLSInfo{
		CertFile: filepath.Join(own, "root.crt"), KeyFile: filepath.Join(own, "root.key"), TrustedCAFile: filepath.Join(own, "ca.crt"),
	}
	config, err := files.ClientConfig()
	require.NoError(h.t, err)
	client, err := clientv3.New(clientv3.Config{Endpoints: []string{url}, TLS: config, Logger: zap.NewNop()})
	require.NoError(h.t, err)
	h.t.Cleanup(func() { client.Close() })
	return client
}

// confine adds a user to etcd that may read and write the keys below a prefix, and nothing else. It is what Kamaji does for each control plane.
func (h *host) confine(client *clientv3.Client, user, prefix string) {
	h.t.Helper()
	ctx := h.t.Context()
	_, err := client.RoleAdd(ctx, user)
	require.NoError(h.t, err)
	_, err = client.RoleGrantPermission(ctx, user, prefix, clientv3.GetPrefixRangeEnd(prefix),
		clientv3.PermissionType(clientv3.PermReadWrite))
	require.NoError(h.t, err)
	for _, name := range []string{user, "root"} {
		_, err = client.UserAddWithOptions(ctx, name, "", &clientv3.UserAddOptions{NoPassword: true})
		require.NoError(h.t, err)
	}
	_, err = client.UserGrantRole(ctx, user, user)
	require.NoError(h.t, err)
	_, err = client.UserGrantRole(ctx, "root", "root")
	require.NoError(h.t, err)
	_, err = client.AuthEnable(ctx)
	require.NoError(h.t, err)
}

// kine starts kine on a new SQLite database, at the socket that the pod names.
func (h *host) kine(instead map[string]string) {
	h.t.Helper()
	var path string
	for _, arg := range h.container("kube-apiserver").Args {
		if _, err := fmt.Sscanf(arg, "--etcd-servers=unix://%s", &path); err == nil {
			break
		}
	}
	require.NotEmpty(h.t, path, "kube-apiserver uses no socket")
	h.start("kine", h.env.Binary("test-assets/kine"), instead)
	framework.Eventually(h.t, "kine listens", func(context.Context) error {
		_, err := os.Stat(h.path(path))
		return err
	})
}
