// Copyright The Tripod Authors.
// SPDX-License-Identifier: Apache-2.0

package search

import (
	"context"
	"encoding/base64"
	"encoding/pem"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"syscall"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"golang.org/x/sync/errgroup"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/rest"

	"github.com/tripod-k8s/tripod/services/search/apis/cluster/v1alpha2"
	"github.com/tripod-k8s/tripod/test/framework"
)

// pediaClusters are the clusters that search copies.
func pediaClusters() dynamic.ResourceInterface { return pediaClustersOf(fleet) }

func pediaClustersOf(fleet *framework.Fleet) dynamic.ResourceInterface {
	return dynamic.NewForConfigOrDie(fleet.Admin()).Resource(schema.GroupVersionResource{
		Group: "cluster.clusterpedia.io", Version: "v1alpha2", Resource: "pediaclusters",
	})
}

// kubeconfig returns a kubeconfig that needs no other file.
func kubeconfig(t *testing.T, config *rest.Config) []byte {
	t.Helper()
	text, err := framework.PortableKubeconfig(config)
	require.NoError(t, err)
	return text
}

// addCluster has search copy some resources of a cluster until the test ends.
func addCluster(t *testing.T, name string, config []byte, wanted ...map[string]any) {
	t.Helper()
	addClusterTo(t, fleet, name, config, wanted...)
}

func addClusterTo(t *testing.T, fleet *framework.Fleet, name string, config []byte, wanted ...map[string]any) {
	t.Helper()
	var sync []any
	for _, w := range wanted {
		sync = append(sync, w)
	}
	framework.Eventually(t, "search takes the cluster "+name, func(ctx context.Context) error {
		_, err := pediaClustersOf(fleet).Create(ctx, &unstructured.Unstructured{Object: map[string]any{
			"apiVersion": "cluster.clusterpedia.io/v1alpha2", "kind": "PediaCluster", "metadata": map[string]any{"name": name},
			"spec": map[string]any{"kubeconfig": base64.StdEncoding.EncodeToString(config), "syncResources": sync},
		}}, metav1.CreateOptions{})
		return err
	})
	t.Cleanup(func() {
		if err := pediaClustersOf(fleet).Delete(context.Background(), name, metav1.DeleteOptions{}); !apierrors.IsNotFound(err) {
			require.NoError(t, err)
		}
	})
}

// removeClusters has search forget clusters, and returns when it has.
func removeClusters(t *testing.T, names ...string) {
	t.Helper()
	for _, name := range names {
		require.NoError(t, pediaClusters().Delete(t.Context(), name, metav1.DeleteOptions{}))
	}
	awaitClusters(t, false, names...)
}

// awaitClusters returns when search knows all of some clusters, or none of them.
func awaitClusters(t *testing.T, known bool, names ...string) {
	t.Helper()
	framework.Eventually(t, fmt.Sprintf("search knows the clusters %v: %t", names, known), func(ctx context.Context) error {
		all, err := get(ctx, fleet.Admin(), resources+"/clusters")
		for _, name := range names {
			if err == nil && slices.Contains(all, name) != known {
				err = fmt.Errorf("it knows %v", all)
			}
		}
		return err
	})
}

func patchCluster(t *testing.T, name, patch string) {
	t.Helper()
	_, err := pediaClusters().Patch(t.Context(), name, types.MergePatchType, []byte(patch), metav1.PatchOptions{})
	require.NoError(t, err)
}

// awaitCondition returns when a condition of a cluster has a status, and a message with a text.
func awaitCondition(t *testing.T, cluster, condition string, status metav1.ConditionStatus, text string) {
	t.Helper()
	awaitConditionIn(t, fleet, cluster, condition, status, text)
}

func awaitConditionIn(t *testing.T, fleet *framework.Fleet, cluster, condition string, status metav1.ConditionStatus, text string) {
	t.Helper()
	framework.Eventually(t, fmt.Sprintf("%s is %s of cluster %s: %s", condition, status, cluster, text), func(ctx context.Context) error {
		got, err := pediaClustersOf(fleet).Get(ctx, cluster, metav1.GetOptions{})
		if err != nil {
			return err
		}
		conditions, _, _ := unstructured.NestedSlice(got.Object, "status", "conditions")
		if !slices.ContainsFunc(conditions, func(c any) bool {
			has := c.(map[string]any)
			return has["type"] == condition && has["status"] == string(status) && strings.Contains(has["message"].(string), text)
		}) {
			return fmt.Errorf("the conditions are %v", conditions)
		}
		return nil
	})
}

// garbage is an API server that has config maps, and no sense in them.
func garbage(w http.ResponseWriter, req *http.Request) {
	answers := map[string]string{
		"/version": `{"major": "1", "minor": "36", "gitVersion": "v1.36.0"}`,
		"/api":     `{"kind": "APIVersions", "versions": ["v1"]}`,
		"/apis":    `{"kind": "APIGroupList", "apiVersion": "v1", "groups": []}`,
		"/api/v1":  `{"kind": "APIResourceList", "groupVersion": "v1", "resources": [{"name": "configmaps", "namespaced": true, "kind": "ConfigMap", "verbs": ["list", "watch"]}]}`,
	}
	answer, ok := answers[req.URL.Path]
	if !ok {
		answer = `{"kind": "ConfigMapList", "items": [{"metadata": <!DOCTYPE html>`
	}
	w.Header().Set("Content-Type", "application/json")
	io.WriteString(w, answer) //nolint:errcheck // the client is gone
}

// silent returns the address of a server that accepts connections and sends nothing.
func silent(t *testing.T) string {
	t.Helper()
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	t.Cleanup(func() { listener.Close() })
	go func() {
		for {
			connection, err := listener.Accept()
			if err != nil {
				return
			}
			t.Cleanup(func() { connection.Close() })
		}
	}()
	return listener.Addr().String()
}

const workload = `
apiVersion: apps/v1
kind: Deployment
metadata: {name: shop, namespace: default}
spec:
  replicas: 2
  selector: {matchLabels: {app: shop}}
  template: {metadata: {labels: {app: shop}}, spec: {containers: [{name: c, image: example.com/shop}]}}
`

const configMapNamed = "{apiVersion: v1, kind: ConfigMap, metadata: {name: %s, namespace: default}}"

// startBoth starts kube-apiserver with a config map, and `tripod kube-apiserver` with controllers, a node and a Deployment.
func startBoth(t *testing.T) (stock, dropIn *framework.Stock) {
	t.Helper()
	var starting errgroup.Group
	starting.Go(func() (err error) {
		if stock, err = environment.StartStock(t.Context(), framework.StockOptions{}); err != nil {
			return err
		}
		return stock.Create(t.Context(), fmt.Sprintf(configMapNamed, "before")+"\n---"+mayRead("namespaces"))
	})
	starting.Go(func() (err error) {
		if dropIn, err = environment.StartStock(t.Context(), framework.StockOptions{DropIn: true}); err != nil {
			return err
		}
		if err := environment.StartControllers(t.Context(), dropIn.Cluster, framework.ControllersOptions{Nodes: []string{"node-0"}}); err != nil {
			return err
		}
		return dropIn.Create(t.Context(), workload)
	})
	require.NoError(t, starting.Wait())
	return stock, dropIn
}

// mayRead lets the user limited read a resource.
func mayRead(resource string) string {
	return strings.ReplaceAll(`
apiVersion: rbac.authorization.k8s.io/v1
kind: ClusterRole
metadata: {name: reads-RESOURCE}
rules: [{apiGroups: [""], resources: [RESOURCE], verbs: [list, watch]}]
---
apiVersion: rbac.authorization.k8s.io/v1
kind: ClusterRoleBinding
metadata: {name: reads-RESOURCE}
roleRef: {apiGroup: rbac.authorization.k8s.io, kind: ClusterRole, name: reads-RESOURCE}
subjects: [{apiGroup: rbac.authorization.k8s.io, kind: User, name: limited}]
`, "RESOURCE", resource)
}

// TestClustersThatBreakDoNotDisturbOthers has search copy five clusters: kube-apiserver, `tripod kube-apiserver` with controllers and a node, kube-apiserver
// with an account that may read little, one that sends garbage, and one that sends nothing.
func TestClustersThatBreakDoNotDisturbOthers(t *testing.T) {
	t.Parallel()
	stock, dropIn := startBoth(t)
	limited, err := stock.UserConfig("limited")
	require.NoError(t, err)
	mad := httptest.NewTLSServer(http.HandlerFunc(garbage))
	t.Cleanup(mad.Close)
	authority := pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: mad.Certificate().Raw})
	madConfig := kubeconfig(t, &rest.Config{Host: mad.URL, TLSClientConfig: rest.TLSClientConfig{CAData: authority}})
	silentConfig := kubeconfig(t, &rest.Config{Host: "https://" + silent(t), TLSClientConfig: rest.TLSClientConfig{CAData: authority}})

	ofCore := map[string]any{"group": "", "resources": []any{"configmaps", "namespaces", "pods"}}
	ofApps := map[string]any{"group": "apps", "resources": []any{"*"}}
	addCluster(t, "silent", silentConfig, ofCore)
	addCluster(t, "mad", madConfig, ofCore)
	addCluster(t, "stock", kubeconfig(t, stock.Admin()), ofCore)
	addCluster(t, "limited", kubeconfig(t, limited), ofCore)
	addCluster(t, "drop-in", kubeconfig(t, dropIn.Admin()), ofCore, ofApps)

	awaitCondition(t, "stock", v1alpha2.Ready, metav1.ConditionTrue, "")
	awaitCondition(t, "drop-in", v1alpha2.Ready, metav1.ConditionTrue, "")
	awaitCondition(t, "limited", v1alpha2.SynchroRunning, metav1.ConditionTrue, "not copied now: configmaps, pods")
	awaitCondition(t, "mad", v1alpha2.SynchroRunning, metav1.ConditionTrue, "not copied now: configmaps")
	awaitList(t, resources+"/api/v1/configmaps?names=before", "default/before")
	awaitList(t, resources+"/clusters/limited/api/v1/namespaces?names=default", "default")
	framework.Eventually(t, "pods of the Deployment are found by their grandparent", func(ctx context.Context) error {
		names, err := get(ctx, fleet.Admin(), resources+"/api/v1/pods?ownerName=shop&ownerGR=deployments.apps&ownerSeniority=1&fieldSelector=status.phase%3DRunning")
		if err == nil && len(names) != 2 {
			err = fmt.Errorf("got %q", names)
		}
		return err
	})

	// One is allowed more. The test looks for that at its end.
	require.NoError(t, stock.Create(t.Context(), mayRead("configmaps")))

	// One is away.
	require.NoError(t, stock.Process.Signal(syscall.SIGKILL))
	<-stock.Process.Done()
	awaitCondition(t, "stock", v1alpha2.ClusterHealthy, metav1.ConditionFalse, "connect: connection refused")
	require.NoError(t, dropIn.Create(t.Context(), fmt.Sprintf(configMapNamed, "away")))
	awaitList(t, resources+"/api/v1/configmaps?names=before,away", "default/away", "default/before")

	// It comes back, and was changed meanwhile.
	require.NoError(t, stock.Restart(t.Context()))
	require.NoError(t, stock.Create(t.Context(), fmt.Sprintf(configMapNamed, "after")))
	awaitList(t, resources+"/clusters/stock/api/v1/configmaps?names=before,away,after", "default/after", "default/before")
	awaitCondition(t, "stock", v1alpha2.Ready, metav1.ConditionTrue, "")

	// One has another certificate authority.
	wrong := dropIn.Admin()
	wrong.CAFile = stock.CAFile()
	patchCluster(t, "drop-in", fmt.Sprintf(`{"spec": {"kubeconfig": %q}}`, base64.StdEncoding.EncodeToString(kubeconfig(t, wrong))))
	awaitCondition(t, "drop-in", v1alpha2.ClusterHealthy, metav1.ConditionFalse, "certificate signed by unknown authority")
	awaitList(t, resources+"/clusters/drop-in/api/v1/configmaps?names=away", "default/away")
	patchCluster(t, "drop-in", fmt.Sprintf(`{"spec": {"kubeconfig": %q}}`, base64.StdEncoding.EncodeToString(kubeconfig(t, dropIn.Admin()))))
	awaitCondition(t, "drop-in", v1alpha2.Ready, metav1.ConditionTrue, "")

	awaitCondition(t, "silent", v1alpha2.ClusterHealthy, metav1.ConditionFalse, "")
	awaitList(t, resources+"/clusters/limited/api/v1/configmaps?names=before", "default/before")

	removeClusters(t, "stock", "drop-in", "limited", "mad", "silent")
	names, err := get(t.Context(), fleet.Admin(), resources+"/api/v1/configmaps?names=before,away,after")
	require.NoError(t, err)
	assert.Empty(t, names)
}
