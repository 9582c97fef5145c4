// Copyright The Tripod Authors.
// SPDX-License-Identifier: Apache-2.0

package up

import (
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"k8s.io/client-go/tools/clientcmd"
	clientcmdapi "k8s.io/client-go/tools/clientcmd/api"
)

func TestKubeconfigKeepsTheEntriesOfOthers(t *testing.T) {
	a := newArguments(t, DefaultOptions())
	require.NoError(t, ensureCertificates(a.store, nil, nil, nil))
	path := filepath.Join(t.TempDir(), "kubeconfig")
	require.NoError(t, writeKubeconfig(path, "https://127.0.0.1:1", a.store))
	config, err := clientcmd.LoadFromFile(path)
	require.NoError(t, err)
	authority := config.Clusters["tripod"].CertificateAuthorityData
	config.Clusters["east"] = &clientcmdapi.Cluster{Server: "https://127.0.0.1:1/apis/clusters/east", CertificateAuthorityData: []byte("a former one")}
	config.Clusters["theirs"] = &clientcmdapi.Cluster{Server: "https://127.0.0.1:11", CertificateAuthorityData: []byte("theirs")}
	config.Contexts["theirs"] = &clientcmdapi.Context{Cluster: "theirs", Namespace: "n"}
	config.CurrentContext = "theirs"
	require.NoError(t, clientcmd.WriteToFile(*config, path))

	require.NoError(t, writeKubeconfig(path, "https://127.0.0.1:2", a.store))
	config, err = clientcmd.LoadFromFile(path)
	require.NoError(t, err)
	servers := map[string]string{}
	for name, cluster := range config.Clusters {
		servers[name] = cluster.Server
	}
	assert.Equal(t, map[string]string{
		"tripod": "https://127.0.0.1:2", "east": "https://127.0.0.1:2/apis/clusters/east", "theirs": "https://127.0.0.1:11",
	}, servers)
	assert.Equal(t, authority, config.Clusters["east"].CertificateAuthorityData)
	assert.Equal(t, []byte("theirs"), config.Clusters["theirs"].CertificateAuthorityData)
	assert.Equal(t, "n", config.Contexts["theirs"].Namespace)
	assert.Equal(t, "tripod", config.CurrentContext)
}
