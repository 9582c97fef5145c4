// Copyright The Tripod Authors.
// SPDX-License-Identifier: Apache-2.0

package takeover

import (
	"bytes"
	"context"
	"fmt"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/rest"

	"github.com/tripod-k8s/tripod/test/framework"
	"github.com/tripod-k8s/tripod/test/framework/inventory"
)

const tripod, kubeAPIServer = true, false

var secretsResource = schema.GroupVersionResource{Version: "v1", Resource: "secrets"}

func TestTripodTakesOverAndGivesBack(t *testing.T) {
	environment, flag := framework.ForTest(t), encrypted(t)
	server, err := environment.StartStock(t.Context(), framework.StockOptions{Args: []string{flag}})
	require.NoError(t, err)
	populate(t, server.Cluster)
	shown, stored := readAPI(t, server.Cluster), readEtcd(t, server.EtcdURL)

	require.NoError(t, server.Exchange(t.Context(), tripod, flag))
	t.Logf("%d objects in etcd, %d shown in all versions", len(stored), len(shown))
	compare(t, shown, readAPI(t, server.Cluster))
	assert.Empty(t, stored.Differences(readEtcd(t, server.EtcdURL), isRestless), "in etcd, after Tripod took over")

	work(t, server.Cluster.Admin())
	shown, stored = readAPI(t, server.Cluster), readEtcd(t, server.EtcdURL)
	for _, key := range []string{"/registry/secrets/takeover/new", "/registry/example.com/boats/takeover/new"} {
		if !bytes.HasPrefix(stored[key].Value, []byte("k8s:enc:aescbc:v1:key1:")) {
			t.Errorf("%s is not encrypted", key)
		}
	}

	require.NoError(t, server.Exchange(t.Context(), kubeAPIServer, flag))
	compare(t, shown, readAPI(t, server.Cluster))
	assert.Empty(t, stored.Differences(readEtcd(t, server.EtcdURL), isRestless), "in etcd, after kube-apiserver took over")
}

// work creates and changes a Secret and a boat, and deletes a boat.
func work(t *testing.T, config *rest.Config) {
	t.Helper()
	client, err := dynamic.NewForConfig(config)
	require.NoError(t, err)
	for _, w := range []struct {
		resource         schema.GroupVersionResource
		kind             string
		changed, deleted string
	}{
		{secretsResource, "Secret", "password", ""},
		{inventory.Boats, "Boat", "boat-1", "boat-2"},
	} {
		objects := client.Resource(w.resource).Namespace(inventory.Namespace)
		if _, err := objects.Create(t.Context(), newObject(w.resource, w.kind, "new"), metav1.CreateOptions{}); err != nil {
			t.Error(err)
		}
		patch := []byte(`{"metadata":{"labels":{"changed":"yes"}}}`)
		if _, err := objects.Patch(t.Context(), w.changed, "application/merge-patch+json", patch, metav1.PatchOptions{}); err != nil {
			t.Error(err)
		}
		if w.deleted == "" {
			continue
		}
		assert.NoError(t, objects.Delete(t.Context(), w.deleted, metav1.DeleteOptions{}))
	}
}

func newObject(resource schema.GroupVersionResource, kind, name string) *unstructured.Unstructured {
	object := &unstructured.Unstructured{}
	object.SetAPIVersion(resource.GroupVersion().String())
	object.SetKind(kind)
	object.SetName(name)
	if kind == "Boat" {
		object.Object["spec"] = map[string]any{"length": int64(7)}
	}
	return object
}

func TestTripodBesideKubeAPIServer(t *testing.T) {
	environment, flag := framework.ForTest(t), encrypted(t)
	first, err := environment.StartStock(t.Context(), framework.StockOptions{Args: []string{flag}})
	require.NoError(t, err)
	populate(t, first.Cluster)
	before := readEtcd(t, first.EtcdURL)
	second, err := first.Beside(t.Context(), tripod, flag)
	require.NoError(t, err)
	compare(t, readAPI(t, first.Cluster), readAPI(t, second.Cluster))

	// Each server creates a definition, and the other one serves the resource.
	for i, servers := range [][2]*framework.Stock{{first, second}, {second, first}} {
		group := fmt.Sprintf("group-%d.example.com", i)
		things := schema.GroupVersionResource{Group: group, Version: "v1", Resource: "things"}
		require.NoError(t, servers[0].Create(t.Context(), framework.CRD{Kind: "Thing", Group: group, ClusterScoped: true}.String()))
		client, err := dynamic.NewForConfig(servers[1].Admin())
		require.NoError(t, err)
		framework.Eventually(t, servers[1].Name+" serves the resource that was defined through "+servers[0].Name, func(ctx context.Context) error {
			_, err := client.Resource(things).Create(ctx, newObject(things, "Thing", "thing"), metav1.CreateOptions{})
			if apierrors.IsAlreadyExists(err) {
				return nil
			}
			return err
		})
		other, err := dynamic.NewForConfig(servers[0].Admin())
		require.NoError(t, err)
		if _, err := other.Resource(things).Get(t.Context(), "thing", metav1.GetOptions{}); err != nil {
			t.Errorf("%s does not show the object that was created through %s: %v", servers[0].Name, servers[1].Name, err)
		}
	}
	after := readEtcd(t, first.EtcdURL)
	require.NoError(t, second.Process.Stop())
	for key, was := range before {
		if is, exists := after[key]; !restless.MatchString(key) && (!exists || is.Revision != was.Revision) {
			t.Errorf("%s was written or removed while both ran", key)
		}
	}
	compare(t, readAPI(t, first.Cluster), readAPI(t, first.Cluster))
}
