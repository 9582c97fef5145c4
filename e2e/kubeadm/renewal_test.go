// Copyright The Tripod Authors.
// SPDX-License-Identifier: Apache-2.0

package kubeadm

import (
	"context"
	"crypto/tls"
	"errors"
	"net/url"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/tripod-k8s/tripod/e2e/controlplane"
)

// stoppedDir is where docs/kubeadm.md puts manifests whose pods shall stop.
const stoppedDir = "/etc/kubernetes/stopped"

// testRenewal renews all certificates. The API server takes over its own without a restart. The controller manager and the scheduler read theirs
// once, so kubeadm requires a restart of the control plane.
func testRenewal(t *testing.T) {
	before, err := served(t.Context())
	require.NoError(t, err)
	pod, err := first.apiServer(t.Context())
	require.NoError(t, err)

	first.run(t, "kubeadm", "certs", "renew", "all")
	renewed := ""
	eventually(t, "the API server serves the new certificate", func(ctx context.Context) error {
		now, err := served(ctx)
		if err == nil && now == before {
			err = errors.New("it serves the old one")
		}
		renewed = now
		return err
	})
	same, err := first.apiServer(t.Context())
	require.NoError(t, err)
	assert.Equal(t, pod.Status.ContainerStatuses[0].ContainerID, same.Status.ContainerStatuses[0].ContainerID, "the API server restarted")
	checkCluster(t)
	checkPod(t)

	first.restart(t, pod.Spec.Containers[0].Image)
	now, err := served(t.Context())
	require.NoError(t, err)
	assert.Equal(t, renewed, now)
	first.run(t, "kubeadm", "certs", "check-expiration")
	checkCluster(t)
	checkPod(t)
}

// served returns the serial number of the certificate that the API server serves.
func served(ctx context.Context) (string, error) {
	address, err := url.Parse(env.Cluster.Config().Host)
	if err != nil {
		return "", err
	}
	dialer := tls.Dialer{Config: &tls.Config{InsecureSkipVerify: true}}
	connection, err := dialer.DialContext(ctx, "tcp", address.Host)
	if err != nil {
		return "", err
	}
	defer connection.Close()
	return connection.(*tls.Conn).ConnectionState().PeerCertificates[0].SerialNumber.String(), nil
}

// restart stops all static pods of the machine and starts them again, as kubeadm's documentation says.
func (m machine) restart(t *testing.T, image string) {
	t.Helper()
	m.run(t, "mkdir", "-p", stoppedDir)
	m.run(t, "sh", "-c", "mv "+controlplane.ManifestDir+"/*.yaml "+stoppedDir)
	eventually(t, "the control plane stops", func(ctx context.Context) error {
		_, err := m.exec(ctx, nil, "sh", "-c", "! pgrep --list-name 'etcd|kube-apiserver|kube-controller|kube-scheduler'")
		return err
	})
	m.run(t, "sh", "-c", "mv "+stoppedDir+"/*.yaml "+controlplane.ManifestDir)
	m.waitForAPIServer(t, image)
}
