// Copyright The Tripod Authors.
// SPDX-License-Identifier: Apache-2.0

package kubeapiserver

import (
	"crypto/tls"
	"crypto/x509"
	"encoding/pem"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"k8s.io/apimachinery/pkg/util/sets"

	"github.com/tripod-k8s/tripod/base/certs"
)

// etcdOfKubeadm makes the files by which kube-apiserver reaches etcd, and returns its flags and the directory.
func etcdOfKubeadm(t *testing.T) (flags []string, dir string) {
	t.Helper()
	dir = t.TempDir()
	store, err := certs.Open(filepath.Join(dir, "etcd"))
	require.NoError(t, err)
	ca, err := store.Authority("ca", "etcd-ca")
	require.NoError(t, err)
	_, err = ca.Ensure("apiserver-etcd-client", certs.Leaf{CommonName: "kube-apiserver-etcd-client", Client: true})
	require.NoError(t, err)
	return []string{
		"--etcd-cafile=" + store.CertFile("ca"), "--etcd-certfile=" + store.CertFile("apiserver-etcd-client"),
		"--etcd-keyfile=" + store.KeyFile("apiserver-etcd-client"),
	}, filepath.Join(dir, "etcd")
}

// etcdCertificate returns the certificate of etcd in the flags of a static pod, as the pod sees it, and its key.
func etcdCertificate(t *testing.T, command []string, has map[string]string) (cert *x509.Certificate, key string) {
	t.Helper()
	content := func(flag string) []byte {
		var found []string
		for _, argument := range command {
			if path, is := strings.CutPrefix(argument, "--"+flag+"="); is {
				found = append(found, path)
			}
		}
		require.Len(t, found, 1, "%s", flag)
		require.Contains(t, has, found[0])
		bytes, err := os.ReadFile(has[found[0]])
		require.NoError(t, err)
		return bytes
	}
	block, _ := pem.Decode(content(etcdCertFlag))
	cert, err := x509.ParseCertificate(block.Bytes)
	require.NoError(t, err)
	return cert, string(content(etcdKeyFlag))
}

func TestEachStaticPodHasAClientOfEtcdOfItsOwn(t *testing.T) {
	flags, etcd := etcdOfKubeadm(t)
	p := StaticPods{Manifest: kubeadmManifest(t, flags...), CertDir: filepath.Join(t.TempDir(), "tripod"), Replicas: map[string]int{"core": 2}}
	made, err := makePods(t, p)
	require.NoError(t, err)
	ca, err := os.ReadFile(filepath.Join(etcd, "ca.crt"))
	require.NoError(t, err)
	roots := x509.NewCertPool()
	require.True(t, roots.AppendCertsFromPEM(ca))
	keys := sets.New[string]()
	for file, pod := range parsed(t, made) {
		has := seen(t, &pod)
		command := pod.Spec.Containers[0].Command
		cert, key := etcdCertificate(t, command, has)
		assert.Equal(t, command[0], cert.Subject.CommonName, "the user in etcd of %s", file)
		assert.Empty(t, cert.Subject.Organization)
		_, err := cert.Verify(x509.VerifyOptions{Roots: roots, KeyUsages: []x509.ExtKeyUsage{x509.ExtKeyUsageClientAuth}})
		require.NoError(t, err)
		keys.Insert(key)
		for path := range has {
			for _, private := range []string{"apiserver-etcd-client.key", "apiserver-etcd-client.crt", "/ca.key", EtcdRootKey} {
				assert.False(t, strings.HasSuffix(path, private), "%s sees %s", file, path)
			}
			if strings.Contains(path, "/etcd-") {
				assert.Contains(t, path, "/etcd-"+strings.TrimPrefix(command[0], "tripod-")+".", "%s sees the certificate of another", file)
			}
		}
	}
	assert.Len(t, keys, 3, "the replicas of core share one")
	root, err := tls.LoadX509KeyPair(filepath.Join(p.CertDir, EtcdRootCert), filepath.Join(p.CertDir, EtcdRootKey))
	require.NoError(t, err)
	assert.Equal(t, "root", root.Leaf.Subject.CommonName)

	again, err := makePods(t, p)
	require.NoError(t, err)
	assert.Equal(t, made.Manifests, again.Manifests, "the kubelet restarts nothing")
}

func TestStaticPodsThatShareAClientOfEtcd(t *testing.T) {
	for name, test := range map[string]struct {
		key  func(etcd string) string
		keep bool
		note string
	}{
		"if the node has no key of the CA": {key: func(string) string { return "" }, note: "there is no key"},
		"if that is wanted":                {key: func(string) string { return NoEtcdCAKey }, keep: true, note: "all services use kube-apiserver's"},
	} {
		t.Run(name, func(t *testing.T) {
			flags, etcd := etcdOfKubeadm(t)
			if !test.keep {
				require.NoError(t, os.Remove(filepath.Join(etcd, "ca.key")))
			}
			made, err := makePods(t, StaticPods{
				Manifest: kubeadmManifest(t, flags...), CertDir: filepath.Join(t.TempDir(), "tripod"), EtcdCAKey: test.key(etcd),
			})
			require.NoError(t, err)
			assert.Contains(t, strings.Join(made.Notes, "\n"), test.note)
			for _, pod := range parsed(t, made) {
				cert, _ := etcdCertificate(t, pod.Spec.Containers[0].Command, seen(t, &pod))
				assert.Equal(t, "kube-apiserver-etcd-client", cert.Subject.CommonName)
			}
		})
	}
}

func TestTheKeyOfEtcdsCAMayBeElsewhere(t *testing.T) {
	flags, etcd := etcdOfKubeadm(t)
	elsewhere := filepath.Join(t.TempDir(), "of-etcd.key")
	require.NoError(t, os.Rename(filepath.Join(etcd, "ca.key"), elsewhere))
	p := StaticPods{Manifest: kubeadmManifest(t, flags...), CertDir: filepath.Join(t.TempDir(), "tripod"), EtcdCAKey: elsewhere}
	pods, err := podsOf(t, p)
	require.NoError(t, err)
	core := pods["tripod-core.yaml"]
	cert, _ := etcdCertificate(t, core.Spec.Containers[0].Command, seen(t, &core))
	assert.Equal(t, "tripod-core", cert.Subject.CommonName)

	p.EtcdCAKey += ".missing"
	_, err = podsOf(t, p)
	assert.ErrorContains(t, err, "of-etcd.key.missing", "a key that was named must be there")
}
