// Copyright The Tripod Authors.
// SPDX-License-Identifier: Apache-2.0

package kubeconfig

import (
	"bytes"
	"testing"
	"unicode/utf8"

	"github.com/stretchr/testify/require"

	"k8s.io/client-go/tools/clientcmd"
)

// FuzzEncode reads what is written, as clients read it.
func FuzzEncode(f *testing.F) {
	f.Add("tripod", "https://127.0.0.1:6443", []byte("ca"), []byte("certificate"), []byte("key"))
	f.Add("a: b\n#", "https://[::1]\t", []byte{}, []byte{0}, []byte("\n"))
	f.Fuzz(func(t *testing.T, name, server string, authority, certificate, key []byte) {
		if !utf8.ValidString(name) || !utf8.ValidString(server) {
			return // not in YAML
		}
		want := Content{Name: name, Server: server, Authority: authority, Certificate: certificate, Key: key}
		data, err := Encode(want)
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
