// Copyright The Tripod Authors.
// SPDX-License-Identifier: Apache-2.0

package connect

import (
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/kubernetes/fake"
	"k8s.io/client-go/tools/clientcmd"
	clientcmdapi "k8s.io/client-go/tools/clientcmd/api"
)

func deployment(namespace, fullname, release string) runtime.Object {
	return &appsv1.Deployment{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: fullname + "-aggregator", Labels: map[string]string{
		"app.kubernetes.io/part-of": "tripod", "app.kubernetes.io/component": "aggregator", labelRelease: release,
	}}}
}

func TestAReleaseIsFoundByItsName(t *testing.T) {
	client := fake.NewClientset(deployment("a", "tripod", "tripod"), deployment("a", "prod-tripod", "prod"), deployment("b", "other-tripod", "other"))
	found, err := Find(t.Context(), client, "a", "prod")
	require.NoError(t, err)
	assert.Equal(t, &Release{Name: "prod", Namespace: "a", fullname: "prod-tripod"}, found)
	names, err := Names(t.Context(), client, "a")
	require.NoError(t, err)
	assert.Equal(t, []string{"prod", "tripod"}, names)
	_, err = Find(t.Context(), client, "a", "other")
	require.EqualError(t, err, "found no release other of Tripod in the namespace a: the namespace has prod, tripod")
	_, err = Find(t.Context(), client, "c", "other")
	require.EqualError(t, err, "found no release other of Tripod in the namespace c: the namespace has no release of Tripod")
}

func TestTwoAggregatorsOfAReleaseAreRefused(t *testing.T) {
	client := fake.NewClientset(deployment("a", "tripod", "tripod"), deployment("a", "another", "tripod"), deployment("a", "prod-tripod", "prod"))
	_, err := Find(t.Context(), client, "a", "tripod")
	require.ErrorContains(t, err, "the namespace a has 2 aggregators of the release tripod, the Deployments another-aggregator and tripod-aggregator")
	_, err = Find(t.Context(), client, "a", "prod")
	require.NoError(t, err)
}

// TestCredentialsAreOnlyData keeps those who may write the Secret from running programs on the user's machine.
func TestCredentialsAreOnlyData(t *testing.T) {
	cluster := &clientcmdapi.Cluster{Server: "https://elsewhere", CertificateAuthorityData: []byte("ca"), ProxyURL: "http://proxy"}
	good := clientcmdapi.AuthInfo{ClientCertificateData: []byte("cert"), ClientKeyData: []byte("key"), Impersonate: "other"}
	exec := &clientcmdapi.ExecConfig{Command: "rm", APIVersion: "client.authentication.k8s.io/v1", InteractiveMode: clientcmdapi.NeverExecInteractiveMode}
	withProgram := good
	withProgram.Exec = exec
	for name, test := range map[string]struct {
		cluster *clientcmdapi.Cluster
		user    clientcmdapi.AuthInfo
		problem string
	}{
		"a certificate":                    {cluster: cluster, user: good},
		"a program beside it":              {cluster: cluster, user: withProgram},
		"a program alone":                  {cluster: cluster, user: clientcmdapi.AuthInfo{Exec: exec}, problem: "without a client certificate or a token in it"},
		"names of files":                   {cluster: cluster, user: clientcmdapi.AuthInfo{TokenFile: "/etc/passwd"}, problem: "without a client certificate"},
		"a cluster without an authority":   {cluster: &clientcmdapi.Cluster{Server: "https://elsewhere"}, user: good, problem: "without a certificate authority"},
		"the name of an authority's file":  {cluster: &clientcmdapi.Cluster{CertificateAuthority: "/etc/passwd"}, user: good, problem: "without a certificate authority"},
		"a kubeconfig without any cluster": {user: good, problem: "no kubeconfig with a current context"},
	} {
		t.Run(name, func(t *testing.T) {
			config := clientcmdapi.NewConfig()
			if test.cluster != nil {
				config.Clusters["x"] = test.cluster
			}
			config.AuthInfos["x"] = &test.user
			config.Contexts["x"] = &clientcmdapi.Context{Cluster: "x", AuthInfo: "x"}
			config.CurrentContext = "x"
			data, err := clientcmd.Write(*config)
			require.NoError(t, err)
			client := fake.NewClientset(&corev1.Secret{
				ObjectMeta: metav1.ObjectMeta{Namespace: "a", Name: "prod-tripod-kubeconfig"}, Data: map[string][]byte{"kubeconfig": data},
			})
			r := &Release{Name: "prod", Namespace: "a", fullname: "prod-tripod"}
			entry, err := r.Credentials(t.Context(), client)
			if test.problem != "" {
				require.ErrorContains(t, err, "the Secret prod-tripod-kubeconfig has")
				require.ErrorContains(t, err, test.problem)
				return
			}
			require.NoError(t, err)
			assert.Equal(t, "tripod_a_prod", entry.Name)
			assert.Equal(t, &clientcmdapi.Cluster{CertificateAuthorityData: []byte("ca")}, entry.Cluster)
			assert.Equal(t, &clientcmdapi.AuthInfo{ClientCertificateData: []byte("cert"), ClientKeyData: []byte("key")}, entry.User)
		})
	}
	r := &Release{Name: "prod", Namespace: "a", fullname: "prod-tripod"}
	_, err := r.Credentials(t.Context(), fake.NewClientset())
	require.ErrorContains(t, err, "the release prod has no Secret prod-tripod-kubeconfig")
}
