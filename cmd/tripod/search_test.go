// Copyright The Tripod Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"bytes"
	"fmt"
	"net/http"
	"net/http/httptest"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"k8s.io/client-go/tools/clientcmd"
	clientcmdapi "k8s.io/client-go/tools/clientcmd/api"
)

func TestSearchKubeconfigAddsClusters(t *testing.T) {
	server := httptest.NewTLSServer(http.HandlerFunc(func(w http.ResponseWriter, req *http.Request) {
		assert.Equal(t, "/apis/clusterpedia.io/v1beta1/resources/clusters", req.URL.Path)
		assert.Equal(t, "Bearer secret", req.Header.Get("Authorization"))
		fmt.Fprint(w, `{"items": [{"metadata": {"name": "east"}}, {"metadata": {"name": "own"}}]}`)
	}))
	defer server.Close()
	file := filepath.Join(t.TempDir(), "kubeconfig")
	config := clientcmdapi.NewConfig()
	config.Clusters["hub"] = &clientcmdapi.Cluster{Server: server.URL, InsecureSkipTLSVerify: true}
	config.Clusters["own"] = &clientcmdapi.Cluster{Server: "https://own.example.com"}
	config.AuthInfos["jane"] = &clientcmdapi.AuthInfo{Token: "secret"}
	config.Contexts["c"] = &clientcmdapi.Context{Cluster: "hub", AuthInfo: "jane"}
	config.CurrentContext = "c"
	require.NoError(t, clientcmd.WriteToFile(*config, file))

	for range 2 { // the second time changes nothing
		cmd := newRootCommand()
		var out bytes.Buffer
		cmd.SetOut(&out)
		cmd.SetArgs([]string{"search", "kubeconfig", "--kubeconfig", file})
		require.NoError(t, cmd.ExecuteContext(t.Context()))
		assert.Equal(t, "clusterpedia: kubectl --cluster clusterpedia get pods -A\neast: kubectl --cluster east get pods -A\n"+
			"own: kubectl --cluster search-own get pods -A\n", out.String())

		got, err := clientcmd.LoadFromFile(file)
		require.NoError(t, err)
		assert.Equal(t, server.URL+"/apis/clusterpedia.io/v1beta1/resources", got.Clusters["clusterpedia"].Server)
		assert.Equal(t, server.URL+"/apis/clusterpedia.io/v1beta1/resources/clusters/east", got.Clusters["east"].Server)
		assert.True(t, got.Clusters["east"].InsecureSkipTLSVerify)
		assert.Equal(t, "https://own.example.com", got.Clusters["own"].Server)
		assert.Equal(t, server.URL+"/apis/clusterpedia.io/v1beta1/resources/clusters/own", got.Clusters["search-own"].Server)
		assert.Equal(t, "c", got.CurrentContext)
		contexts := map[string]string{}
		for name, context := range got.Contexts {
			contexts[name] = context.Cluster + " as " + context.AuthInfo
		}
		assert.Equal(t, map[string]string{
			"c": "hub as jane", "clusterpedia": "clusterpedia as jane", "east": "east as jane", "search-own": "search-own as jane",
		}, contexts)
	}
}

func TestSearchDiffRefusesWhatCannotBeMeant(t *testing.T) {
	for want, args := range map[string][]string{
		"write summary, diff or json": {"-o", "yaml"},
		"none of the others can be":   {"--since", "1m", "--from", "5m"},
	} {
		cmd := newSearchDiffCommand()
		cmd.SetArgs(args)
		require.ErrorContains(t, cmd.ExecuteContext(t.Context()), want)
	}
}
