// Copyright The Tripod Authors.
// SPDX-License-Identifier: Apache-2.0

package search

import (
	"context"
	"fmt"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/kubernetes"

	"github.com/tripod-k8s/tripod/services/search/diff"
	"github.com/tripod-k8s/tripod/test/framework"
)

// TestChangesAreReported changes and deletes objects, and asks for what there was and for what has changed.
func TestChangesAreReported(t *testing.T) {
	const configMaps = hub + "/api/v1/namespaces/default/configmaps?fieldSelector=data.of%3Dpast"
	template := "{apiVersion: v1, kind: ConfigMap, metadata: {name: past-%s, namespace: default}, data: {of: past}}"
	for _, name := range []string{"changed", "deleted"} {
		require.NoError(t, fleet.Create(t.Context(), fmt.Sprintf(template, name)))
	}
	awaitList(t, configMaps, "default/past-changed", "default/past-deleted")
	client, err := kubernetes.NewForConfig(fleet.Admin())
	require.NoError(t, err)
	listed, err := searching(t, fleet.Admin(), "hub").CoreV1().ConfigMaps("default").List(t.Context(), metav1.ListOptions{})
	require.NoError(t, err)

	in := client.CoreV1().ConfigMaps("default")
	require.NoError(t, in.Delete(t.Context(), "past-deleted", metav1.DeleteOptions{}))
	changed, err := in.Get(t.Context(), "past-changed", metav1.GetOptions{})
	require.NoError(t, err)
	changed.Data["more"] = "x"
	_, err = in.Update(t.Context(), changed, metav1.UpdateOptions{})
	require.NoError(t, err)
	require.NoError(t, fleet.Create(t.Context(), fmt.Sprintf(template, "new")))
	awaitList(t, configMaps, "default/past-changed", "default/past-new")
	awaitList(t, configMaps+"&at="+listed.ResourceVersion, "default/past-changed", "default/past-deleted")

	question := diff.Question{From: listed.ResourceVersion, To: "now", Cluster: "hub", Resources: []schema.GroupResource{{Resource: "configmaps"}}, Fields: "data.of=past"}
	framework.Eventually(t, "the changes have arrived", func(ctx context.Context) error {
		answer, err := question.Ask(ctx, client.RESTClient())
		if err != nil {
			return err
		}
		received := map[string]string{}
		for _, c := range answer.Changes {
			received[c.Name] = string(c.Change) + " " + strings.Join(c.Fields, ",")
			assert.False(t, c.Time.IsZero())
		}
		want := map[string]string{"past-changed": "changed data.more", "past-deleted": "deleted ", "past-new": "added "}
		if !assert.ObjectsAreEqual(want, received) {
			return fmt.Errorf("got %v, want %v", received, want)
		}
		return nil
	})
}
