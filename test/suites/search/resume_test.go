// Copyright The Tripod Authors.
// SPDX-License-Identifier: Apache-2.0

package search

import (
	"bytes"
	"fmt"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"

	"github.com/tripod-k8s/tripod/services/search/v1alpha2"
	"github.com/tripod-k8s/tripod/test/framework"
)

const template = `
apiVersion: v1
kind: PodTemplate
metadata: {name: %s, namespace: default}
template: {spec: {containers: [{name: c, image: example.com/c}]}}
`

// listsOf returns how often a server has listed pod templates for clients, as a list or as the beginning of a watch.
func listsOf(t *testing.T, client kubernetes.Interface) float64 {
	t.Helper()
	metrics, err := client.Discovery().RESTClient().Get().AbsPath("/metrics").DoRaw(t.Context())
	require.NoError(t, err)
	lists, err := framework.SumMetric(bytes.NewReader(metrics), "apiserver_request_total", "resource=podtemplates", "verb=LIST")
	require.NoError(t, err)
	streamed, err := framework.SumMetric(bytes.NewReader(metrics), "apiserver_watch_list_duration_seconds", "resource=podtemplates")
	require.NoError(t, err)
	return lists + streamed
}

func TestAClusterIsNotListedAgainAfterARestart(t *testing.T) {
	stock, err := environment.StartStock(t.Context(), framework.StockOptions{})
	require.NoError(t, err)
	client, err := kubernetes.NewForConfig(stock.Admin())
	require.NoError(t, err)
	before := listsOf(t, client)
	require.NoError(t, stock.Create(t.Context(), fmt.Sprintf(template, "before")))
	addCluster(t, "resumed", kubeconfig(t, stock.Admin()), map[string]any{"group": "", "resources": []any{"podtemplates"}})
	awaitCondition(t, "resumed", v1alpha2.Ready, metav1.ConditionTrue, "")
	const copied = resources + "/clusters/resumed/api/v1/podtemplates"
	awaitList(t, copied, "default/before")
	listed := listsOf(t, client)
	require.Greater(t, listed, before, "the first copy is counted")

	copies := fleet.Replica("search-0")
	require.NoError(t, copies.Kill())
	require.NoError(t, stock.Create(t.Context(), fmt.Sprintf(template, "meanwhile")))
	require.NoError(t, client.CoreV1().PodTemplates("default").Delete(t.Context(), "before", metav1.DeleteOptions{}))
	require.NoError(t, copies.Start())
	require.NoError(t, copies.WaitReady(t.Context()))
	awaitList(t, copied, "default/meanwhile")
	assert.InDelta(t, listed, listsOf(t, client), 0, "it went on where it was")
}
