// Copyright The Tripod Authors.
// SPDX-License-Identifier: Apache-2.0

package services

import (
	"context"
	"net/http"
	"os"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	apiregistrationv1 "k8s.io/kube-aggregator/pkg/apis/apiregistration/v1"

	"github.com/tripod-k8s/tripod/test/framework"
	"github.com/tripod-k8s/tripod/test/framework/traffic"
)

// unstored is the path of a service that keeps its objects in a file, and not in etcd. Tests build it. flunderFile is that file.
var unstored, flunderFile string

func buildUnstored(t *testing.T) {
	t.Helper()
	root, err := framework.RepositoryRoot()
	require.NoError(t, err)
	framework.BuildAlone(t, root, "examples/wardle", "./testdata/unstored", unstored)
}

func TestAServiceNeedsNoEtcd(t *testing.T) {
	buildUnstored(t)
	resource := schema.GroupVersionResource{Group: "unstored.example.com", Version: "v1", Resource: "flunders"}
	replica := fleet.Replica("unstored-0")
	require.NoError(t, replica.Start())
	t.Cleanup(func() { assert.NoError(t, replica.Stop()) })
	unready := func(service *apiregistrationv1.APIService) bool { return isOf(service, "unstored", false) }
	awaitAPIService(t, resource, "is not available without its file", unready)

	require.NoError(t, os.WriteFile(flunderFile, []byte("one\ntwo\n"), 0o600))
	require.NoError(t, replica.WaitReady(t.Context()))
	awaitOwner(t, resource, "unstored")
	flunders := dynamicClient(t, fleet.Admin()).Resource(resource)
	framework.Eventually(t, "the aggregator sends it requests", func(ctx context.Context) error {
		_, err := flunders.List(ctx, metav1.ListOptions{})
		return err
	})
	list, err := flunders.List(t.Context(), metav1.ListOptions{})
	require.NoError(t, err)
	require.Len(t, list.Items, 2)
	one, err := flunders.Get(t.Context(), "two", metav1.GetOptions{})
	require.NoError(t, err)
	assert.Equal(t, "Flunder", one.GetKind())

	client := traffic.NewClient(t, fleet.Admin(), 1)
	answer, err := client.Send(t.Context(), http.MethodGet, "/readyz?service=unstored&verbose", nil)
	require.NoError(t, err)
	assert.Contains(t, string(answer.Body), "[+]file ok")
	assert.NotContains(t, string(answer.Body), "etcd")
	answer, err = client.Send(t.Context(), http.MethodPost, "/apis/unstored.example.com/v1/flunders", []byte(`{}`))
	require.NoError(t, err)
	assert.Equal(t, http.StatusMethodNotAllowed, answer.Code, "%s", answer.Body)

	require.NoError(t, os.Remove(flunderFile))
	awaitAPIService(t, resource, "is not available any more", unready)
}
