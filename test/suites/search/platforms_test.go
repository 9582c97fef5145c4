// Copyright The Tripod Authors.
// SPDX-License-Identifier: Apache-2.0

package search

import (
	"context"
	"encoding/base64"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	authenticationv1 "k8s.io/api/authentication/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/tools/clientcmd"
	clientcmdapi "k8s.io/client-go/tools/clientcmd/api"

	"github.com/tripod-k8s/tripod/services/search/apis/cluster/v1alpha2"
	"github.com/tripod-k8s/tripod/test/framework"
)

// platformMember is the account with which platforms of the test reach the only cluster that they have.
const platformMember = `
apiVersion: v1
kind: ServiceAccount
metadata: {name: platform-member, namespace: default}
---
apiVersion: rbac.authorization.k8s.io/v1
kind: ClusterRole
metadata: {name: platform-member}
rules: [{apiGroups: [""], resources: [namespaces], verbs: [list, watch]}]
---
apiVersion: rbac.authorization.k8s.io/v1
kind: ClusterRoleBinding
metadata: {name: platform-member}
roleRef: {apiGroup: rbac.authorization.k8s.io, kind: ClusterRole, name: platform-member}
subjects: [{kind: ServiceAccount, name: platform-member, namespace: default}]
`

// platformCredentials are those of a cluster as platforms write them, in base64.
type platformCredentials struct{ server, authority, token, kubeconfig string }

func credentialsOfMember(t *testing.T) platformCredentials {
	t.Helper()
	require.NoError(t, fleet.Create(t.Context(), platformMember))
	made, err := clientOf(t, fleet.Admin()).CoreV1().ServiceAccounts("default").CreateToken(t.Context(), "platform-member",
		&authenticationv1.TokenRequest{}, metav1.CreateOptions{})
	require.NoError(t, err)
	authority, err := os.ReadFile(fleet.CAFile())
	require.NoError(t, err)
	config := clientcmdapi.NewConfig()
	config.Clusters["c"] = &clientcmdapi.Cluster{Server: fleet.URL, CertificateAuthorityData: authority}
	config.AuthInfos["u"] = &clientcmdapi.AuthInfo{Token: made.Status.Token}
	config.Contexts["x"] = &clientcmdapi.Context{Cluster: "c", AuthInfo: "u"}
	config.CurrentContext = "x"
	kubeconfig, err := clientcmd.Write(*config)
	require.NoError(t, err)
	encode := base64.StdEncoding.EncodeToString
	return platformCredentials{fleet.URL, encode(authority), encode([]byte(made.Status.Token)), encode(kubeconfig)}
}

// platformCases are clusters as each platform writes them: at first one that is not ready, and then the status of one that is.
func platformCases(of platformCredentials) []platformCase {
	const secret = "{apiVersion: v1, kind: Secret, metadata: {name: %s, namespace: %s}, data: {%s}}"
	return []platformCase{
		{
			file: "cluster-api", cluster: "clusters.blue", namespaces: []string{"clusters"},
			resource: schema.GroupVersionResource{Group: "cluster.x-k8s.io", Version: "v1beta2", Resource: "clusters"}, namespace: "clusters", name: "blue",
			object: `{apiVersion: cluster.x-k8s.io/v1beta2, kind: Cluster, metadata: {name: blue, namespace: clusters}, spec: {
				controlPlaneEndpoint: {host: 127.0.0.1, port: 6443}, controlPlaneRef: {apiGroup: controlplane.cluster.x-k8s.io, kind: KubeadmControlPlane, name: blue}}}`,
			secret: fmt.Sprintf(secret, "blue-kubeconfig", "clusters", "value: "+of.kubeconfig),
			status: `{"initialization": {"infrastructureProvisioned": true, "controlPlaneInitialized": true}}`,
		},
		{
			file: "karmada", cluster: "green", namespaces: []string{"karmada-cluster"},
			resource: schema.GroupVersionResource{Group: "cluster.karmada.io", Version: "v1alpha1", Resource: "clusters"}, name: "green",
			object: fmt.Sprintf(`{apiVersion: cluster.karmada.io/v1alpha1, kind: Cluster, metadata: {name: green}, spec: {
				syncMode: Push, apiEndpoint: %q, secretRef: {namespace: karmada-cluster, name: green}}}`, of.server),
			secret: fmt.Sprintf(secret, "green", "karmada-cluster", "caBundle: "+of.authority+", token: "+of.token),
			status: `{"kubernetesVersion": "v1.37.2"}`, always: true,
		},
		{
			file: "open-cluster-management", cluster: "red", namespaces: []string{"red"},
			resource: schema.GroupVersionResource{Group: "cluster.open-cluster-management.io", Version: "v1", Resource: "managedclusters"}, name: "red",
			object: fmt.Sprintf(`{apiVersion: cluster.open-cluster-management.io/v1, kind: ManagedCluster, metadata: {name: red}, spec: {
				hubAcceptsClient: true, managedClusterClientConfigs: [{url: %q, caBundle: %s}]}}`, of.server, of.authority),
			secret: fmt.Sprintf(secret, "tripod-search", "red", "ca.crt: "+of.authority+", token: "+of.token),
			status: `{"conditions": [{"type": "ManagedClusterConditionAvailable", "status": "True", "reason": "ManagedClusterAvailable", "message": "",
				"lastTransitionTime": "2026-01-01T00:00:00Z"}]}`,
		},
		{
			file: "cluster-profile", cluster: "yellow", namespaces: []string{"fleet", "fleet-credentials"},
			resource:  schema.GroupVersionResource{Group: "multicluster.x-k8s.io", Version: "v1alpha1", Resource: "clusterprofiles"},
			namespace: "fleet", name: "yellow",
			object: `{apiVersion: multicluster.x-k8s.io/v1alpha1, kind: ClusterProfile, metadata: {name: yellow, namespace: fleet}, spec: {
				displayName: yellow, clusterManager: {name: manager}}}`,
			secret: fmt.Sprintf(secret, "yellow", "fleet-credentials", "token: "+of.token),
			status: fmt.Sprintf(`{"accessProviders": [{"name": "other", "cluster": {"server": "https://192.0.2.1"}},
				{"name": "secretreader", "cluster": {"server": %q, "certificate-authority-data": %q}}]}`, of.server, of.authority),
		},
	}
}

type platformCase struct {
	// file is the name of the definition and of the example, and cluster that of the PediaCluster.
	file, cluster string
	namespaces    []string
	resource      schema.GroupVersionResource
	// object is named so, and status makes it ready. always is set if the policy waits for no status.
	namespace, name, object, secret, status string
	always                                  bool
}

// TestPoliciesImportTheClustersOfPlatforms applies the examples beside the definitions of the platforms themselves.
func TestPoliciesImportTheClustersOfPlatforms(t *testing.T) {
	t.Parallel()
	root, err := framework.RepositoryRoot()
	require.NoError(t, err)
	for _, platform := range platformCases(credentialsOfMember(t)) {
		t.Run(platform.file, func(t *testing.T) {
			t.Parallel()
			definition, err := os.ReadFile(filepath.Join("testdata", "platforms", platform.file+".yaml"))
			require.NoError(t, err)
			example, err := os.ReadFile(filepath.Join(root, "examples", "clusters", platform.file+".yaml"))
			require.NoError(t, err)
			require.NoError(t, fleet.Create(t.Context(), string(definition)))
			for _, namespace := range platform.namespaces {
				require.NoError(t, fleet.Create(t.Context(), "{apiVersion: v1, kind: Namespace, metadata: {name: "+namespace+"}}"))
			}
			framework.Eventually(t, "the platform has its cluster", func(ctx context.Context) error { return fleet.Create(ctx, platform.object) })
			framework.Eventually(t, "search has defined its kinds", func(ctx context.Context) error {
				if err := fleet.Create(ctx, string(example)); !apierrors.IsAlreadyExists(err) {
					return err
				}
				return nil
			})
			require.NoError(t, fleet.Create(t.Context(), platform.secret))
			clusters := dynamic.NewForConfigOrDie(fleet.Admin()).Resource(platform.resource).Namespace(platform.namespace)
			if !platform.always {
				awaitLifecycle(t, platform.cluster, "WaitCreationCondition")
				_, err = pediaClusters().Get(t.Context(), platform.cluster, metav1.GetOptions{})
				require.True(t, apierrors.IsNotFound(err), "it is not ready: %v", err)
			}
			_, err = clusters.Patch(t.Context(), platform.name, types.MergePatchType, []byte(`{"status": `+platform.status+`}`), metav1.PatchOptions{}, "status")
			require.NoError(t, err)
			awaitCondition(t, platform.cluster, v1alpha2.Validated, metav1.ConditionTrue, "")
			awaitList(t, resources+"/clusters/"+platform.cluster+"/api/v1/namespaces?names=kube-system", "kube-system")
			require.NoError(t, clusters.Delete(t.Context(), platform.name, metav1.DeleteOptions{}))
			awaitClusters(t, false, platform.cluster)
			assert.NoError(t, removePolicy(t, platform.file))
		})
	}
}

var (
	policyResource    = schema.GroupVersionResource{Group: "policy.clusterpedia.io", Version: "v1alpha1", Resource: "clusterimportpolicies"}
	lifecycleResource = policyResource.GroupVersion().WithResource("pediaclusterlifecycles")
)

func removePolicy(t *testing.T, name string) error {
	t.Helper()
	return dynamic.NewForConfigOrDie(fleet.Admin()).Resource(policyResource).Delete(t.Context(), name, metav1.DeleteOptions{})
}

// awaitLifecycle returns when a lifecycle has a reason in its conditions.
func awaitLifecycle(t *testing.T, name, reason string) {
	t.Helper()
	framework.Eventually(t, name+" has the reason "+reason, func(ctx context.Context) error {
		got, err := dynamic.NewForConfigOrDie(fleet.Admin()).Resource(lifecycleResource).Get(ctx, name, metav1.GetOptions{})
		if err != nil {
			return err
		}
		if text := fmt.Sprint(got.Object["status"]); !strings.Contains(text, "reason:"+reason) {
			return fmt.Errorf("its status is %s", text)
		}
		return nil
	})
}
