// Copyright The Tripod Authors.
// SPDX-License-Identifier: Apache-2.0

package up

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"k8s.io/client-go/tools/clientcmd"
	clientcmdapi "k8s.io/client-go/tools/clientcmd/api"
)

func TestAnInstanceInTheKubeconfigOfTheUser(t *testing.T) {
	users := filepath.Join(setHome(t), ".kube", "config")
	t.Setenv("KUBECONFIG", users)
	former := clientcmdapi.NewConfig()
	former.Clusters["prod"] = &clientcmdapi.Cluster{Server: "https://prod"}
	former.Contexts["prod"] = &clientcmdapi.Context{Cluster: "prod"}
	former.CurrentContext = "prod"
	require.NoError(t, clientcmd.WriteToFile(*former, users))

	d, other := makeInstance(t, "east"), makeInstance(t, DefaultName)
	for server, d := range map[string]DataDir{"https://127.0.0.1:7443": d, "https://127.0.0.1:6443": other} {
		config := clientcmdapi.NewConfig()
		config.Clusters[contextName] = &clientcmdapi.Cluster{Server: server, CertificateAuthorityData: []byte(server)}
		config.AuthInfos[contextName] = &clientcmdapi.AuthInfo{Token: server}
		require.NoError(t, clientcmd.WriteToFile(*config, d.Kubeconfig()))
	}
	require.NoError(t, os.Chmod(users, 0o644))
	_, err := Merge(d)
	require.ErrorContains(t, err, "others can read "+users)
	require.NoError(t, os.Chmod(users, 0o600))
	for range 2 { // as with a second start
		path, err := Merge(d)
		require.NoError(t, err)
		assert.Equal(t, users, path)
	}
	merged, err := clientcmd.LoadFromFile(users)
	require.NoError(t, err)
	assert.Equal(t, "tripod-east", merged.CurrentContext)
	assert.Equal(t, "https://127.0.0.1:7443", merged.Clusters["tripod-east"].Server)
	assert.Equal(t, "https://127.0.0.1:7443", merged.AuthInfos["tripod-east"].Token)
	assert.Equal(t, "https://prod", merged.Clusters["prod"].Server)

	merged.Clusters["tripod"] = &clientcmdapi.Cluster{Server: "https://of-another"}
	require.NoError(t, clientcmd.WriteToFile(*merged, users))
	_, err = Merge(other)
	require.ErrorContains(t, err, `has a cluster "tripod" that is not of this instance`)
	removed, err := Unmerge(other)
	require.NoError(t, err)
	assert.False(t, removed, "it is that of another")

	removed, err = Unmerge(d)
	require.NoError(t, err)
	assert.True(t, removed)
	left, err := clientcmd.LoadFromFile(users)
	require.NoError(t, err)
	assert.ElementsMatch(t, []string{"prod", "tripod"}, keys(left.Clusters))
	assert.Empty(t, left.AuthInfos)
	assert.ElementsMatch(t, []string{"prod"}, keys(left.Contexts))
	assert.Empty(t, left.CurrentContext)
}

func keys[V any](m map[string]V) (all []string) {
	for key := range m {
		all = append(all, key)
	}
	return all
}
