// Copyright The Tripod Authors.
// SPDX-License-Identifier: Apache-2.0

package kubeconfig

import (
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"k8s.io/client-go/tools/clientcmd"
	clientcmdapi "k8s.io/client-go/tools/clientcmd/api"
)

// TestTheFormerContextComesBack is about an entry that comes and goes.
func TestTheFormerContextComesBack(t *testing.T) {
	for name, test := range map[string]struct {
		// current is the context while the entry is there, if the user chooses another.
		current string
		// gone is set if the former context goes meanwhile.
		gone bool
		want string
	}{
		"the entry stays the current context": {want: "prod"},
		"the user chooses another":            {current: "test", want: "test"},
		"the former context goes":             {gone: true, want: ""},
	} {
		t.Run(name, func(t *testing.T) {
			path := filepath.Join(t.TempDir(), "config")
			t.Setenv("KUBECONFIG", path)
			config := clientcmdapi.NewConfig()
			for _, name := range []string{"prod", "test"} {
				config.Contexts[name] = &clientcmdapi.Context{Cluster: name}
			}
			config.CurrentContext = "prod"
			require.NoError(t, clientcmd.WriteToFile(*config, path))
			entry := &Entry{
				Name: "e", Cluster: &clientcmdapi.Cluster{Server: "https://e", CertificateAuthorityData: []byte("ca")}, User: &clientcmdapi.AuthInfo{Token: "t"},
			}
			_, former, err := entry.Merge("this test", "leave it")
			require.NoError(t, err)
			assert.Equal(t, "prod", former)
			merged, err := clientcmd.LoadFromFile(path)
			require.NoError(t, err)
			assert.Equal(t, "e", merged.CurrentContext)
			if test.current != "" {
				merged.CurrentContext = test.current
			}
			if test.gone {
				delete(merged.Contexts, "prod")
			}
			require.NoError(t, clientcmd.WriteToFile(*merged, path))
			removed, err := entry.Unmerge(former)
			require.NoError(t, err)
			assert.True(t, removed)
			left, err := clientcmd.LoadFromFile(path)
			require.NoError(t, err)
			assert.Equal(t, test.want, left.CurrentContext)
			assert.NotContains(t, left.Contexts, "e")
		})
	}
}

// TestAnEntryCanBeReplaced has two commands merge the same entry with servers of their own.
func TestAnEntryCanBeReplaced(t *testing.T) {
	t.Setenv("KUBECONFIG", filepath.Join(t.TempDir(), "config"))
	entry := func(server string) *Entry {
		return &Entry{Name: "e", Cluster: &clientcmdapi.Cluster{Server: server, CertificateAuthorityData: []byte("ca")}, User: &clientcmdapi.AuthInfo{Token: "t"}}
	}
	first, second := entry("https://first"), entry("https://second")
	for _, one := range []*Entry{first, second} {
		_, _, err := one.Merge("this test", "leave it")
		require.NoError(t, err)
		replaced, err := one.Replaced()
		require.NoError(t, err)
		assert.False(t, replaced)
	}
	replaced, err := first.Replaced()
	require.NoError(t, err)
	assert.True(t, replaced)
}
