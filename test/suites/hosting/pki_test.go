// Copyright The Tripod Authors.
// SPDX-License-Identifier: Apache-2.0

package hosting

import (
	"crypto/x509"
	"os"
	"path/filepath"
	"time"

	"github.com/stretchr/testify/require"

	certutil "k8s.io/client-go/util/cert"
	kubeadmapi "k8s.io/kubernetes/cmd/kubeadm/app/apis/kubeadm"
	"k8s.io/kubernetes/cmd/kubeadm/app/phases/certs"
	"k8s.io/kubernetes/cmd/kubeadm/app/phases/kubeconfig"
	kubeadmconfig "k8s.io/kubernetes/cmd/kubeadm/app/util/config"
	"k8s.io/kubernetes/cmd/kubeadm/app/util/pkiutil"
)

// pki makes the certificates in a directory of the pod with kubeadm's code, as both tools do, and the kubeconfig admin.conf beside them.
func (h *host) pki(directory, endpoint string) *kubeadmapi.InitConfiguration {
	h.t.Helper()
	config, err := kubeadmconfig.DefaultedStaticInitConfiguration()
	require.NoError(h.t, err)
	config.CertificatesDir = h.path(directory)
	config.ControlPlaneEndpoint = endpoint
	config.Networking.ServiceSubnet = "10.96.0.0/16"
	config.APIServer.CertSANs = []string{"127.0.0.1", "localhost"}
	config.NodeRegistration.Name = "tenant"
	config.Etcd.Local = &kubeadmapi.LocalEtcd{}
	require.NoError(h.t, certs.CreatePKIAssets(config))
	h.kubeconfig(config, filepath.Join(directory, "admin.conf"), "kubernetes-super-admin", "system:masters")
	return config
}

// kubeconfig writes a kubeconfig with a client certificate to a file of the pod.
func (h *host) kubeconfig(config *kubeadmapi.InitConfiguration, file, user string, groups ...string) {
	h.t.Helper()
	out, err := os.OpenFile(h.path(file), os.O_CREATE|os.O_WRONLY|os.O_EXCL, 0o600)
	require.NoError(h.t, err)
	defer out.Close()
	require.NoError(h.t, kubeconfig.WriteKubeConfigWithClientCert(out, config, user, groups, time.Now().Add(time.Hour)))
}

// splitCA writes the authority under the names that vcluster gives it.
func (h *host) splitCA(directory string) {
	h.t.Helper()
	for _, kind := range []string{".crt", ".key"} {
		data, err := os.ReadFile(h.path(filepath.Join(directory, "ca"+kind)))
		require.NoError(h.t, err)
		for _, name := range []string{"server-ca", "client-ca"} {
			require.NoError(h.t, os.WriteFile(h.path(filepath.Join(directory, name+kind)), data, 0o600))
		}
	}
}

// etcdUser writes the certificate of a user of etcd, of the authority of etcd in the directory from.
func (h *host) etcdUser(from, to, name, user string) {
	h.t.Helper()
	ca, key, err := pkiutil.TryLoadCertAndKeyFromDisk(from, "ca")
	require.NoError(h.t, err)
	cert, own, err := pkiutil.NewCertAndKey(ca, key, &pkiutil.CertConfig{
		Config: certutil.Config{CommonName: user, Usages: []x509.ExtKeyUsage{x509.ExtKeyUsageClientAuth}},
	})
	require.NoError(h.t, err)
	require.NoError(h.t, pkiutil.WriteCertAndKey(to, name, cert, own))
}
