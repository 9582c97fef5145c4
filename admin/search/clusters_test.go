// Copyright The Tripod Authors.
// SPDX-License-Identifier: Apache-2.0

package search

import (
	"bytes"
	"context"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/dynamic/fake"
	"k8s.io/client-go/tools/clientcmd"
	clientcmdapi "k8s.io/client-go/tools/clientcmd/api"
	"sigs.k8s.io/yaml"

	"github.com/tripod-k8s/tripod/services/search/apis/cluster/v1alpha2"
)

// writeKubeconfig writes a kubeconfig with two contexts, whose CA is a file.
func writeKubeconfig(t *testing.T, change func(*clientcmdapi.Config)) string {
	t.Helper()
	dir := t.TempDir()
	require.NoError(t, os.WriteFile(filepath.Join(dir, "ca"), []byte("PEM"), 0o600))
	config := clientcmdapi.NewConfig()
	config.Clusters["a"] = &clientcmdapi.Cluster{Server: "https://a.example.com", CertificateAuthority: filepath.Join(dir, "ca")}
	config.Clusters["b"] = &clientcmdapi.Cluster{Server: "https://b.example.com"}
	config.AuthInfos["jane"] = &clientcmdapi.AuthInfo{Token: "secret"}
	config.AuthInfos["eve"] = &clientcmdapi.AuthInfo{Token: "other"}
	config.Contexts["a"] = &clientcmdapi.Context{Cluster: "a", AuthInfo: "jane"}
	config.Contexts["b"] = &clientcmdapi.Context{Cluster: "b", AuthInfo: "eve"}
	config.CurrentContext = "a"
	change(config)
	file := filepath.Join(dir, "kubeconfig")
	require.NoError(t, clientcmd.WriteToFile(*config, file))
	return file
}

func TestTheSpecOfAClusterHasOneContextAndNoFiles(t *testing.T) {
	a := Addition{Kubeconfig: writeKubeconfig(t, func(*clientcmdapi.Config) {}), Resources: []string{"pods", "deployments.apps", "*.example.com", "*.*"}}
	spec, err := a.Spec()
	require.NoError(t, err)
	config, err := clientcmd.Load(spec.Kubeconfig)
	require.NoError(t, err)
	assert.Len(t, config.Contexts, 1)
	assert.Len(t, config.AuthInfos, 1)
	assert.Equal(t, "PEM", string(config.Clusters["a"].CertificateAuthorityData))
	assert.Empty(t, config.Clusters["a"].CertificateAuthority)
	assert.Equal(t, "secret", config.AuthInfos["jane"].Token)
	assert.Equal(t, []v1alpha2.GroupResources{
		{Resources: []string{"pods"}}, {Group: "apps", Resources: []string{"deployments"}}, {Group: "example.com", Resources: []string{"*"}}, {Group: "*", Resources: []string{"*"}},
	}, spec.SyncResources)

	_, err = (&Addition{Kubeconfig: writeKubeconfig(t, func(c *clientcmdapi.Config) { c.CurrentContext = "c" })}).Spec()
	require.ErrorContains(t, err, "has no current context")
	_, err = (&Addition{Kubeconfig: "missing"}).Spec()
	require.ErrorContains(t, err, "--kubeconfig")
	_, err = (&Addition{Kubeconfig: writeKubeconfig(t, func(c *clientcmdapi.Config) {
		c.AuthInfos["jane"] = &clientcmdapi.AuthInfo{Exec: &clientcmdapi.ExecConfig{Command: "login", APIVersion: "client.authentication.k8s.io/v1"}}
	})}).Spec()
	require.ErrorContains(t, err, "runs a program to log in, which search does not: add --context a")
}

func fakeClusters(t *testing.T, statuses ...string) dynamic.ResourceInterface {
	t.Helper()
	resource := v1alpha2.GroupVersion.WithResource("pediaclusters")
	client := fake.NewSimpleDynamicClientWithCustomListKinds(runtime.NewScheme(), map[schema.GroupVersionResource]string{resource: "PediaClusterList"})
	clusters := client.Resource(resource)
	if len(statuses) > 0 {
		go func() { // search
			for _, status := range statuses {
				time.Sleep(3 * lookInterval / 2)
				object, err := clusters.Get(context.Background(), "east", metav1.GetOptions{})
				if err != nil {
					return
				}
				var fields map[string]any
				_ = yaml.Unmarshal([]byte(status), &fields)
				object.Object["status"] = fields
				_, _ = clusters.Update(context.Background(), object, metav1.UpdateOptions{})
			}
		}()
	}
	return clusters
}

const (
	valid     = `{type: Validated, status: "True"}`
	away      = `{conditions: [` + valid + `, {type: ClusterHealthy, status: "False", message: "connection refused"}]}`
	unknown   = `{conditions: [` + valid + `, {type: ClusterHealthy, status: "True"}]}`
	listing   = `{version: v1, apiserver: "https://x", conditions: [` + valid + `, {type: ClusterHealthy, status: "True"}, {type: Ready, status: "True"}], syncResources: [{group: "", resources: [{name: pods, kind: Pod, namespaced: true, syncConditions: [{version: v1, status: Syncing, initialListPhase: true, lastTransitionTime: null}]}, {name: nodes, kind: Node, namespaced: false, syncConditions: [{version: v1, status: Pending, lastTransitionTime: null}]}]}]}`
	copied    = `{version: v1, apiserver: "https://x", conditions: [` + valid + `, {type: ClusterHealthy, status: "True"}, {type: Ready, status: "True"}], syncResources: [{group: "", resources: [{name: pods, kind: Pod, namespaced: true, syncConditions: [{version: v1, status: Syncing, lastTransitionTime: null}]}, {name: nodes, kind: Node, namespaced: false, syncConditions: [{version: v1, status: Error, lastTransitionTime: null}]}]}]}`
	notUsable = `{conditions: [{type: Validated, status: "False", message: "no server"}]}`
)

func TestAddingAClusterShowsProgress(t *testing.T) {
	for _, tc := range []struct {
		name     string
		statuses []string
		noWait   bool
		says     []string
		wrong    string
		stays    bool
	}{
		{
			name: "copied", statuses: []string{away, unknown, listing, copied}, stays: true,
			says: []string{"waiting for search", "search has not reached the cluster: connection refused", "search asks the cluster what it has", "0 of 2 resources are copied",
				"1 of 2 resources are copied, 1 cannot be copied (kubectl get pediaclusters -o yaml says why)"},
		},
		{name: "not usable", statuses: []string{notUsable}, says: []string{"waiting for search", "no server"}, wrong: "so it is not added: no server"},
		{name: "too late", statuses: []string{away}, says: []string{"waiting for search", "search has not reached the cluster: connection refused"}, wrong: "tripod search clusters remove east", stays: true},
		{name: "nobody waits", noWait: true, says: []string{"search will copy east"}, stays: true},
	} {
		t.Run(tc.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				clusters := fakeClusters(t, tc.statuses...)
				ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
				defer cancel()
				var output []string
				a := Addition{Name: "east", Wait: !tc.noWait}
				err := a.Add(ctx, clusters, &v1alpha2.ClusterSpec{Kubeconfig: []byte("x")}, func(line string) { output = append(output, line) })
				if tc.wrong == "" {
					require.NoError(t, err)
				} else {
					require.ErrorContains(t, err, tc.wrong)
				}
				assert.Equal(t, tc.says, output)
				object, err := clusters.Get(t.Context(), "east", metav1.GetOptions{})
				if !tc.stays {
					require.Error(t, err, "something is left")
					return
				}
				require.NoError(t, err)
				kubeconfig, _, _ := unstructured.NestedString(object.Object, "spec", "kubeconfig")
				assert.Equal(t, "eA==", kubeconfig)
				err = a.Add(t.Context(), clusters, &v1alpha2.ClusterSpec{}, func(string) {})
				require.ErrorContains(t, err, "there is a cluster east")
			})
		})
	}
}

func TestClustersAreListed(t *testing.T) {
	clusters := fakeClusters(t)
	// These copies are complete.
	lost := strings.Replace(away, valid, valid+`, {type: Fresh, status: "True", reason: Fresh}`, 1)
	failing := strings.Replace(copied, valid, valid+`, {type: Fresh, status: "False", reason: Stale}`, 1)
	for name, status := range map[string]string{"west": away, "east": copied, "lost": lost, "failing": failing} {
		object := &unstructured.Unstructured{Object: map[string]any{"apiVersion": v1alpha2.GroupVersion.String(), "kind": "PediaCluster"}}
		object.SetName(name)
		var fields map[string]any
		require.NoError(t, yaml.Unmarshal([]byte(status), &fields))
		object.Object["status"] = fields
		_, err := clusters.Create(t.Context(), object, metav1.CreateOptions{})
		require.NoError(t, err)
	}
	all, err := List(t.Context(), clusters)
	require.NoError(t, err)
	var out bytes.Buffer
	require.NoError(t, Print(&out, all))
	assert.Equal(t, `NAME      READY   VERSION   SERVER      MESSAGE
east      true    v1        https://x   1 of 2 resources are copied, 1 cannot be copied (kubectl get pediaclusters -o yaml says why)
failing   true    v1        https://x   all 2 resources are copied, 1 not kept up to date now (kubectl get pediaclusters -o yaml says why)
lost      false                         search does not reach the cluster now, and answers from its last copy: connection refused
west      false                         search has not reached the cluster: connection refused
`, out.String())
}
