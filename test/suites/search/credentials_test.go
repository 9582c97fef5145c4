// Copyright The Tripod Authors.
// SPDX-License-Identifier: Apache-2.0

package search

import (
	"context"
	"encoding/base64"
	"encoding/pem"
	"fmt"
	"net/http"
	"net/http/httptest"
	"sync/atomic"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/kubernetes"

	"github.com/tripod-k8s/tripod/services/search/apis/cluster/v1alpha2"
	"github.com/tripod-k8s/tripod/test/framework"
)

// listener is the API server of others, which counts the requests that bring it a token.
type listener struct {
	*httptest.Server
	authority string
	tokens    atomic.Int32
}

func newListener(t *testing.T, token string) *listener {
	t.Helper()
	l := &listener{}
	l.Server = httptest.NewTLSServer(http.HandlerFunc(func(w http.ResponseWriter, req *http.Request) {
		if req.Header.Get("Authorization") == "Bearer "+token {
			l.tokens.Add(1)
		}
		garbage(w, req)
	}))
	t.Cleanup(l.Close)
	authority := pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: l.Certificate().Raw})
	l.authority = base64.StdEncoding.EncodeToString(authority)
	return l
}

// addClusterFrom has search copy a cluster with the credentials of Secrets until the test ends.
func addClusterFrom(t *testing.T, name, spec string) {
	t.Helper()
	framework.Eventually(t, "search has defined its kinds", func(ctx context.Context) error {
		return fleet.Create(ctx, fmt.Sprintf(`{apiVersion: cluster.clusterpedia.io/v1alpha2, kind: PediaCluster, metadata: {name: %s}, spec: {%s,
			syncResources: [{group: "", resources: [configmaps]}]}}`, name, spec))
	})
	t.Cleanup(func() { assert.NoError(t, pediaClusters().Delete(context.Background(), name, metav1.DeleteOptions{})) })
}

// allow sets who may use a Secret.
func allow(t *testing.T, secret, clusters string) {
	t.Helper()
	client, err := kubernetes.NewForConfig(fleet.Admin())
	require.NoError(t, err)
	_, err = client.CoreV1().Secrets("platform").Patch(t.Context(), secret, types.MergePatchType,
		fmt.Appendf(nil, `{"metadata": {"annotations": {%q: %q}}}`, v1alpha2.SecretAnnotation, clusters), metav1.PatchOptions{})
	require.NoError(t, err)
}

func TestASecretGoesToNoServerThatItDoesNotName(t *testing.T) {
	t.Parallel()
	thief := newListener(t, "precious")
	require.NoError(t, fleet.Create(t.Context(), fmt.Sprintf(`{apiVersion: v1, kind: Secret, metadata: {name: victim, namespace: platform,
		annotations: {tripod-k8s.io/pediaclusters: "victim=https://127.0.0.1:1"}}, stringData: {token: precious}, data: {ca: %s}}`, thief.authority)))
	require.NoError(t, fleet.Create(t.Context(), `{apiVersion: v1, kind: Secret, metadata: {name: borrowed, namespace: platform,
		annotations: {tripod-k8s.io/pediaclusters: victim}}, stringData: {config: "{}"}}`))

	addClusterFrom(t, "thief", fmt.Sprintf(`apiserver: %q, authenticationFrom: {token: {name: victim, key: token}}`, thief.URL))
	addClusterFrom(t, "burglar", fmt.Sprintf(`apiserver: %q, authenticationFrom: {ca: {name: victim, key: ca}, token: {name: victim, key: token}}`, thief.URL))
	addClusterFrom(t, "borrower", `authenticationFrom: {kubeconfig: {name: borrowed, key: config}}`)
	awaitCondition(t, "thief", v1alpha2.Validated, metav1.ConditionFalse, "authenticationFrom names no ca")
	awaitCondition(t, "burglar", v1alpha2.Validated, metav1.ConditionFalse,
		"kubectl annotate secret --namespace platform victim tripod-k8s.io/pediaclusters=burglar="+thief.URL)
	awaitCondition(t, "borrower", v1alpha2.Validated, metav1.ConditionFalse,
		"kubectl annotate secret --namespace platform borrowed tripod-k8s.io/pediaclusters=borrower")

	allow(t, "victim", "thief=https://127.0.0.1:1, victim="+thief.URL)
	awaitCondition(t, "burglar", v1alpha2.Validated, metav1.ConditionFalse, "does not let PediaCluster burglar use it")
	assert.Zero(t, thief.tokens.Load(), "the token was sent to a server that its Secret does not name")

	allow(t, "victim", "burglar="+thief.URL)
	awaitCondition(t, "burglar", v1alpha2.Validated, metav1.ConditionTrue, "")
	framework.Eventually(t, "search uses the token", func(context.Context) error {
		if thief.tokens.Load() == 0 {
			return fmt.Errorf("it was not sent")
		}
		return nil
	})
	allow(t, "victim", "")
	awaitCondition(t, "burglar", v1alpha2.Validated, metav1.ConditionFalse, "does not let PediaCluster burglar use it")
}

func TestPediaClustersAreNotCopied(t *testing.T) {
	t.Parallel()
	addCluster(t, "copies", kubeconfig(t, fleet.Admin()), map[string]any{"group": "", "resources": []any{"namespaces"}},
		map[string]any{"group": "cluster.clusterpedia.io", "resources": []any{"pediaclusters", "clustersyncresources"}})
	awaitList(t, resources+"/clusters/copies/api/v1/namespaces?names=platform", "platform")
	framework.Eventually(t, "the other resource of the group is copied", func(ctx context.Context) error {
		_, err := get(ctx, fleet.Admin(), resources+"/clusters/copies/apis/cluster.clusterpedia.io/v1alpha2/clustersyncresources")
		return err
	})
	names, _ := get(t.Context(), fleet.Admin(), resources+"/clusters/copies/apis/cluster.clusterpedia.io/v1alpha2/pediaclusters")
	assert.Empty(t, names)
}
