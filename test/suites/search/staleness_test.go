// Copyright The Tripod Authors.
// SPDX-License-Identifier: Apache-2.0

package search

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"syscall"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"

	"github.com/tripod-k8s/tripod/services/search/apis/cluster/v1alpha2"
	"github.com/tripod-k8s/tripod/test/framework"
)

const template = `
apiVersion: v1
kind: PodTemplate
metadata: {name: quiet, namespace: default}
template: {spec: {containers: [{name: c, image: example.com/c}]}}
`

func TestAClusterThatDoesNotAnswerIsTooOldUntilItAnswersAgain(t *testing.T) {
	t.Parallel()
	stock, err := environment.StartStock(t.Context(), framework.StockOptions{})
	require.NoError(t, err)
	require.NoError(t, stock.Create(t.Context(), template))
	addCluster(t, "frozen", kubeconfig(t, stock.Admin()), map[string]any{"group": "", "resources": []any{"podtemplates"}})
	awaitCondition(t, "frozen", v1alpha2.Fresh, metav1.ConditionTrue, "")
	const all = resources + "/api/v1/podtemplates?maxStaleness=15s"
	const other = all + "&clusters=hub"
	client, err := kubernetes.NewForConfig(fleet.Admin())
	require.NoError(t, err)
	ask := func(path string) error { return client.RESTClient().Get().RequestURI(path).Do(t.Context()).Error() }
	refused := func(context.Context) error {
		err := ask(all)
		if !apierrors.IsServiceUnavailable(err) {
			return fmt.Errorf("it is not refused: %w", err)
		}
		var status apierrors.APIStatus
		errors.As(err, &status)
		if causes := status.Status().Details.Causes; len(causes) != 1 || causes[0].Field != "clusters[frozen]" {
			return fmt.Errorf("the causes are %v", causes)
		}
		return ask(other)
	}
	// Nothing changes, and yet the copy stays fresh.
	framework.Eventually(t, "the quiet cluster is fresh", func(context.Context) error { return ask(all) })
	var watched io.ReadCloser
	framework.Eventually(t, "it can be watched", func(context.Context) (err error) {
		watched, err = client.RESTClient().Get().RequestURI(all + "&clusters=frozen&watch=true").Stream(t.Context())
		return err
	})
	defer watched.Close()
	t.Cleanup(func() { stock.Process.Signal(syscall.SIGCONT) }) //nolint:errcheck // it may have ended
	require.NoError(t, stock.Process.Signal(syscall.SIGSTOP))
	framework.Eventually(t, "the cluster that does not answer is named, and others are searched", refused)
	end := struct {
		Type   string
		Object metav1.Status
	}{}
	for events := json.NewDecoder(watched); end.Type != "ERROR"; {
		require.NoError(t, events.Decode(&end), "the watch ends with what is wrong")
	}
	assert.Equal(t, metav1.StatusReasonServiceUnavailable, end.Object.Reason)
	assert.Equal(t, "clusters[frozen]", end.Object.Details.Causes[0].Field)
	require.NoError(t, stock.Process.Signal(syscall.SIGCONT))
	framework.Eventually(t, "the cluster is fresh again", func(context.Context) error { return ask(all) })
}
