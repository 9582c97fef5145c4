// Copyright The Tripod Authors.
// SPDX-License-Identifier: Apache-2.0

package apiservice

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	authenticationv1 "k8s.io/api/authentication/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/kubernetes"
	"k8s.io/kube-aggregator/pkg/client/clientset_generated/clientset"

	"github.com/tripod-k8s/tripod/test/framework"
)

// specRights are what Kubernetes' conformance spec "Should be able to support the 1.17 Sample API Server using the current Aggregator" gives to the
// ServiceAccount of the sample's pod (test/e2e/apimachinery/aggregator.go). NAME is the namespace.
const specRights = `
apiVersion: v1
kind: ServiceAccount
metadata: {name: default, namespace: NAME}
---
apiVersion: rbac.authorization.k8s.io/v1
kind: ClusterRole
metadata: {name: sample-apiserver-reader-NAME}
rules:
- {apiGroups: [""], resources: [namespaces], verbs: [get, list, watch]}
- {apiGroups: [admissionregistration.k8s.io], resources: ["*"], verbs: [get, list, watch]}
- {apiGroups: [flowcontrol.apiserver.k8s.io], resources: [prioritylevelconfigurations, flowschemas], verbs: [get, list, watch]}
---
apiVersion: rbac.authorization.k8s.io/v1
kind: ClusterRoleBinding
metadata: {name: "wardler:NAMEsample-apiserver-reader-NAME"}
roleRef: {apiGroup: rbac.authorization.k8s.io, kind: ClusterRole, name: sample-apiserver-reader-NAME}
subjects: [{kind: ServiceAccount, name: default, namespace: NAME}]
---
apiVersion: rbac.authorization.k8s.io/v1
kind: ClusterRoleBinding
metadata: {name: "wardler:NAME:auth-delegator"}
roleRef: {apiGroup: rbac.authorization.k8s.io, kind: ClusterRole, name: "system:auth-delegator"}
subjects: [{kind: ServiceAccount, name: default, namespace: NAME}]
---
apiVersion: rbac.authorization.k8s.io/v1
kind: RoleBinding
metadata: {name: wardler-auth-reader-NAME, namespace: kube-system}
roleRef: {apiGroup: rbac.authorization.k8s.io, kind: Role, name: extension-apiserver-authentication-reader}
subjects: [{kind: ServiceAccount, name: default, namespace: NAME}]
`

// inPod runs a program as in a pod: with the folder $0 as that of its ServiceAccount, in a file system of its own.
const inPod = `mount -t tmpfs none /var/run && mkdir -p /var/run/secrets/kubernetes.io && cp -r "$0" /var/run/secrets/kubernetes.io/serviceaccount && exec "$@"`

var unshare = []string{"--user", "--map-root-user", "--mount", "sh", "-c"}

// TestTheExampleIsAnImageForTheConformanceSpec runs the example as the spec runs its image: with these flags and rights, and what it finds in a pod. Only
// the port is another one than the default, 443.
func TestTheExampleIsAnImageForTheConformanceSpec(t *testing.T) {
	if os.Getenv("SKIP_POD") == "1" {
		t.Skip("SKIP_POD=1: whoever sets it says that nobody may make mounts of their own here")
	}
	out, err := exec.CommandContext(t.Context(), "unshare", append(unshare, "mount -t tmpfs none /var/run")...).CombinedOutput()
	require.NoError(t, err, "nobody may make mounts of their own here, so set SKIP_POD=1: %s", out)
	env := framework.ForTest(t)
	stock, err := env.StartStock(t.Context(), framework.StockOptions{})
	require.NoError(t, err)
	fleet, err := env.StartFleet(t.Context(), framework.FleetOptions{})
	require.NoError(t, err)
	for name, cluster := range map[string]*framework.Cluster{"behind kube-apiserver": stock.Cluster, "behind Tripod": fleet.Cluster} {
		t.Run(name, func(t *testing.T) {
			sample := env.NewSampleServer(t, cluster)
			register(t, sample, startPod(t, env, sample))
			followSpec(t, cluster, sample.Namespace)
		})
	}
}

// TestTheExampleRunsBehindAnOlderKubeAPIServer runs it behind one that has no MutatingAdmissionPolicies in version v1, and whose admission plugin would
// wait for them without end.
func TestTheExampleRunsBehindAnOlderKubeAPIServer(t *testing.T) {
	env := framework.ForTest(t)
	older, err := env.StartStock(t.Context(), framework.StockOptions{Args: []string{"--emulated-version=1.35"}})
	require.NoError(t, err)
	sample := env.NewSampleServer(t, older.Cluster)
	sample.Run("wardle")
	port, err := framework.FreePort()
	require.NoError(t, err)
	_, err = env.Start(sample.Command("wardle", port))
	require.NoError(t, err)
	register(t, sample, port)
	followSpec(t, older.Cluster, sample.Namespace)
}

// startPod runs the example as in a pod, and returns its port.
func startPod(t *testing.T, env *framework.Environment, sample *framework.SampleServer) int {
	t.Helper()
	cluster, namespace := sample.Cluster, sample.Namespace
	require.NoError(t, cluster.Create(t.Context(), strings.ReplaceAll(specRights, "NAME", namespace)))
	kube, err := kubernetes.NewForConfig(cluster.Admin())
	require.NoError(t, err)
	token, err := kube.CoreV1().ServiceAccounts(namespace).CreateToken(t.Context(), "default", &authenticationv1.TokenRequest{}, metav1.CreateOptions{})
	require.NoError(t, err)
	ca, err := os.ReadFile(cluster.CAFile())
	require.NoError(t, err)
	account := t.TempDir()
	for file, content := range map[string][]byte{"token": []byte(token.Status.Token), "ca.crt": ca, "namespace": []byte(namespace)} {
		require.NoError(t, os.WriteFile(filepath.Join(account, file), content, 0o600))
	}
	port, err := framework.FreePort()
	require.NoError(t, err)
	api, err := url.Parse(cluster.URL)
	require.NoError(t, err)
	certificate, key := sample.Certificate()
	_, err = env.Start(framework.Command{
		Name: "wardle", Dir: t.TempDir(), Path: "unshare",
		Env: []string{"KUBERNETES_SERVICE_HOST=" + api.Hostname(), "KUBERNETES_SERVICE_PORT=" + api.Port()},
		Args: append(unshare, inPod, account, env.Binary("wardle"), "--secure-port="+strconv.Itoa(port),
			"--etcd-servers="+sample.EtcdURL, "--tls-cert-file="+certificate, "--tls-private-key-file="+key,
			"--audit-log-path=-", "--audit-log-maxage=0", "--audit-log-maxbackup=0"),
	})
	require.NoError(t, err)
	return port
}

// register waits until the example is ready, and registers it.
func register(t *testing.T, sample *framework.SampleServer, port int) {
	t.Helper()
	kubelet := &http.Client{Transport: &http.Transport{TLSClientConfig: &tls.Config{InsecureSkipVerify: true}}}
	framework.Eventually(t, "the readiness probe succeeds", func(ctx context.Context) error {
		request, err := http.NewRequestWithContext(ctx, http.MethodGet, fmt.Sprintf("https://localhost:%d/readyz", port), nil)
		if err != nil {
			return err
		}
		answer, err := kubelet.Do(request)
		if err != nil {
			return err
		}
		if answer.StatusCode != http.StatusOK {
			err = errors.New(answer.Status)
		}
		return errors.Join(err, answer.Body.Close())
	})
	kube, err := kubernetes.NewForConfig(sample.Cluster.Admin())
	require.NoError(t, err)
	_, err = kube.CoreV1().Services(sample.Namespace).Create(t.Context(), &corev1.Service{
		ObjectMeta: metav1.ObjectMeta{Name: "sample-api"}, Spec: corev1.ServiceSpec{Type: corev1.ServiceTypeExternalName, ExternalName: "localhost"},
	}, metav1.CreateOptions{})
	require.NoError(t, err)
	registrations, err := clientset.NewForConfig(sample.Cluster.Admin())
	require.NoError(t, err)
	registration := sample.APIService("sample-api", port)
	registration.Spec.GroupPriorityMinimum, registration.Spec.VersionPriority = 2000, 200
	_, err = registrations.ApiregistrationV1().APIServices().Create(t.Context(), registration, metav1.CreateOptions{})
	require.NoError(t, err)
}

// followSpec does with the API what the spec does.
func followSpec(t *testing.T, cluster *framework.Cluster, namespace string) {
	t.Helper()
	kube, err := kubernetes.NewForConfig(cluster.Admin())
	require.NoError(t, err)
	gvr := schema.GroupVersionResource{Group: "wardle.example.com", Version: "v1alpha1", Resource: "flunders"}
	client, err := dynamic.NewForConfig(cluster.Admin())
	require.NoError(t, err)
	framework.Eventually(t, "the sample answers", func(ctx context.Context) error {
		_, err := client.Resource(gvr).Namespace("default").List(ctx, metav1.ListOptions{})
		return err
	})
	for _, in := range []string{"default", namespace} {
		flunders := client.Resource(gvr).Namespace(in)
		flunder := &unstructured.Unstructured{Object: map[string]any{
			"apiVersion": "wardle.example.com/v1alpha1", "kind": "Flunder",
			"metadata": map[string]any{"name": "test-flunder", "labels": map[string]any{"sample-label": "true"}},
		}}
		created, err := flunders.Create(t.Context(), flunder, metav1.CreateOptions{})
		require.NoError(t, err)
		assert.Equal(t, "wardle.example.com/v1alpha1, Kind=Flunder", created.GroupVersionKind().String())
		for _, left := range []int{1, 0} {
			list, err := flunders.List(t.Context(), metav1.ListOptions{})
			require.NoError(t, err)
			assert.Len(t, list.Items, left)
			if left > 0 {
				require.NoError(t, flunders.Delete(t.Context(), "test-flunder", metav1.DeleteOptions{}))
			}
		}
	}
	framework.Eventually(t, "discovery prefers the version that is registered", func(context.Context) error {
		lists, err := kube.Discovery().ServerPreferredNamespacedResources()
		for _, list := range lists {
			if list.GroupVersion == gvr.GroupVersion().String() {
				return err
			}
		}
		return fmt.Errorf("it does not: %w", err)
	})
	registrations, err := clientset.NewForConfig(cluster.Admin())
	require.NoError(t, err)
	registered, err := registrations.ApiregistrationV1().APIServices().Get(t.Context(), "v1alpha1.wardle.example.com", metav1.GetOptions{})
	require.NoError(t, err)
	assert.Equal(t, "all checks passed", registered.Status.Conditions[0].Message)
}
