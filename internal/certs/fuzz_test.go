// Copyright The Tripod Authors.
// SPDX-License-Identifier: Apache-2.0

package certs

import (
	"bytes"
	"crypto/tls"
	"os"
	"testing"
	"unicode/utf8"

	"github.com/stretchr/testify/require"

	"k8s.io/client-go/tools/clientcmd"
)

// FuzzPair uses only certificates and keys that crypto/tls uses too, and describes whatever is in a bundle.
func FuzzPair(f *testing.F) {
	store, err := Open(f.TempDir())
	if err != nil {
		f.Fatal(err)
	}
	if _, err := store.Authority("ca", "ca"); err != nil {
		f.Fatal(err)
	}
	certificate, err := os.ReadFile(store.CertFile("ca"))
	if err != nil {
		f.Fatal(err)
	}
	key, err := os.ReadFile(store.KeyFile("ca"))
	if err != nil {
		f.Fatal(err)
	}
	f.Add(certificate, key)
	f.Add(append([]byte("text\n"), certificate...), append(key, certificate...))
	f.Add(key, certificate)
	f.Fuzz(func(t *testing.T, certificate, key []byte) {
		if _, _, err := store.decode("ca", Pair{Certificate: certificate, Key: key}); err == nil {
			_, err := tls.X509KeyPair(certificate, key)
			require.NoError(t, err)
		}
		require.LessOrEqual(t, len(Describe("ca", certificate)), bytes.Count(certificate, []byte("-----BEGIN")))
	})
}

// FuzzKubeconfig reads what is written, as clients read it.
func FuzzKubeconfig(f *testing.F) {
	f.Add("tripod", "https://127.0.0.1:6443", []byte("ca"), []byte("certificate"), []byte("key"))
	f.Add("a: b\n#", "https://[::1]\t", []byte{}, []byte{0}, []byte("\n"))
	f.Fuzz(func(t *testing.T, name, server string, authority, certificate, key []byte) {
		if !utf8.ValidString(name) || !utf8.ValidString(server) {
			return // not in YAML
		}
		want := Kubeconfig{Name: name, Server: server, Authority: authority, Certificate: certificate, Key: key}
		data, err := EncodeKubeconfig(want)
		if err != nil {
			return
		}
		config, err := clientcmd.Load(data)
		require.NoError(t, err)
		current := config.Contexts[config.CurrentContext]
		require.NotNil(t, current)
		cluster, user := config.Clusters[current.Cluster], config.AuthInfos[current.AuthInfo]
		require.Equal(t, server, cluster.Server)
		require.True(t, bytes.Equal(authority, cluster.CertificateAuthorityData))
		require.True(t, bytes.Equal(certificate, user.ClientCertificateData) && bytes.Equal(key, user.ClientKeyData))
	})
}
