// Copyright The Tripod Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"bytes"
	"fmt"
	"net/http"
	"net/http/httptest"
	"path/filepath"
	"strings"
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

func TestClustersOfAHubAreListedAndCompleted(t *testing.T) {
	hub := httptest.NewTLSServer(http.HandlerFunc(func(w http.ResponseWriter, req *http.Request) {
		assert.Equal(t, "/apis/cluster.clusterpedia.io/v1alpha2/pediaclusters", req.URL.Path)
		w.Header().Set("Content-Type", "application/json")
		fmt.Fprint(w, `{"apiVersion": "cluster.clusterpedia.io/v1alpha2", "kind": "PediaClusterList", "items": [
			{"metadata": {"name": "east"}}, {"metadata": {"name": "eastern"}}, {"metadata": {"name": "west"}}]}`)
	}))
	defer hub.Close()
	config := clientcmdapi.NewConfig()
	config.Clusters["hub"] = &clientcmdapi.Cluster{Server: hub.URL, InsecureSkipTLSVerify: true}
	config.Clusters["other"] = &clientcmdapi.Cluster{Server: "https://127.0.0.1:1"}
	config.AuthInfos["jane"] = &clientcmdapi.AuthInfo{Token: "secret"}
	config.Contexts["hub"] = &clientcmdapi.Context{Cluster: "hub", AuthInfo: "jane"}
	config.Contexts["other"] = &clientcmdapi.Context{Cluster: "other", AuthInfo: "jane"}
	config.CurrentContext = "other"
	file := filepath.Join(t.TempDir(), "kubeconfig")
	require.NoError(t, clientcmd.WriteToFile(*config, file))
	t.Setenv("KUBECONFIG", file)

	output, err := execute(t, "search", "clusters", "list", "--hub-context", "hub", "-o", "name")
	require.NoError(t, err)
	assert.Equal(t, "east\neastern\nwest\n", output)
	for line, want := range map[string]string{
		"search clusters remove --hub-context hub ea":    "east\neastern\n",
		"search clusters remove --hub-context hub east ": "eastern\nwest\n",
		"search clusters list --hub-context h":           "hub\n",
	} {
		output, err := execute(t, append([]string{"__complete"}, strings.Split(line, " ")...)...)
		require.NoError(t, err)
		completed, _, _ := strings.Cut(output, ":4\n") // no files
		assert.Equal(t, want, completed, line)
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
