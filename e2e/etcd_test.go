// Copyright The Tripod Authors.
// SPDX-License-Identifier: Apache-2.0

package e2e

import (
	"crypto/tls"
	"crypto/x509"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	clientv3 "go.etcd.io/etcd/client/v3"
	"go.uber.org/zap"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/tripod-k8s/tripod/admin/etcd/access/accesstest"
	"github.com/tripod-k8s/tripod/e2e/release"
)

// TestEtcdKeepsServicesApart attacks the etcd of the release with the certificate of each service: the image of etcd decides whether that
// holds.
func TestEtcdKeepsServicesApart(t *testing.T) {
	r := shared(t)
	address, stop, err := r.Forward(t.Context(), r.Name+"-etcd-0", 2379)
	require.NoError(t, err)
	defer stop()
	root := etcdClient(t, r, address, r.Name+"-etcd-client")
	// Nothing reads these keys: no such resource exists.
	for service, own := range map[string]string{
		"core": "/registry/secrets/e2e-attack/own", "extensions": "/registry/attack.example.com/own", "aggregator": "/registry/apiregistration.k8s.io/e2e-attack/own",
	} {
		t.Run(service, func(t *testing.T) {
			target := accesstest.Target{User: "tripod-" + service, Own: own, Directory: "/services/e2e-attack", Forbidden: "/services/e2e-attack/a"}
			target.Lease, err = accesstest.Plant(t.Context(), root, target.Forbidden)
			require.NoError(t, err)
			client := etcdClient(t, r, address, r.Name+"-etcd-client-"+service)
			allowed, err := accesstest.Allowed(t.Context(), client, target)
			require.NoError(t, err)
			expected, err := accesstest.Expected(t.Context(), client)
			require.NoError(t, err)
			assert.Equal(t, expected, allowed)
			_, err = root.Revoke(t.Context(), target.Lease)
			require.NoError(t, err)
		})
	}
}

// etcdClient returns a client with the certificate in a Secret.
func etcdClient(t *testing.T, r *release.Release, address, secret string) *clientv3.Client {
	t.Helper()
	files, err := r.Host.Client.CoreV1().Secrets(r.Namespace).Get(t.Context(), secret, metav1.GetOptions{})
	require.NoError(t, err)
	pair, err := tls.X509KeyPair(files.Data[corev1.TLSCertKey], files.Data[corev1.TLSPrivateKeyKey])
	require.NoError(t, err)
	roots := x509.NewCertPool()
	require.True(t, roots.AppendCertsFromPEM(files.Data["ca.crt"]), "%s has no CA", secret)
	client, err := clientv3.New(clientv3.Config{
		Endpoints: []string{"https://" + address}, Logger: zap.NewNop(),
		TLS: &tls.Config{Certificates: []tls.Certificate{pair}, RootCAs: roots, MinVersion: tls.VersionTLS12},
	})
	require.NoError(t, err)
	t.Cleanup(func() { client.Close() })
	return client
}
