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
)

const tripod, kubeAPIServer = true, false

var (
	secretsResource = schema.GroupVersionResource{Version: "v1", Resource: "secrets"}
	widgetsResource = schema.GroupVersionResource{Group: "example.com", Version: "v1", Resource: "widgets"}
)

func TestTripodTakesOverAndGivesBack(t *testing.T) {
	environment, flag := framework.ForTest(t), encrypted(t)
	server, err := environment.StartStock(t.Context(), framework.StockOptions{Args: []string{flag}})
	require.NoError(t, err)
	populate(t, server.Cluster)
	etcd := openEtcd(t, server.EtcdURL)
	shown, stored := readAPI(t, server.Cluster), readEtcd(t, etcd)

	require.NoError(t, server.Exchange(t.Context(), tripod, flag))
	t.Logf("%d objects in etcd, %d shown in all versions", len(stored), len(shown))
	compare(t, shown, readAPI(t, server.Cluster))
	for _, difference := range differences(stored, readEtcd(t, etcd)) {
		t.Errorf("in etcd, Tripod has %s", difference)
	}

	work(t, server.Cluster.Admin())
	shown, stored = readAPI(t, server.Cluster), readEtcd(t, etcd)
	for _, key := range []string{"/registry/secrets/takeover/new", "/registry/example.com/widgets/takeover/new"} {
		if !bytes.HasPrefix(stored[key].value, []byte("k8s:enc:aescbc:v1:key1:")) {
			t.Errorf("%s is not encrypted", key)
		}
	}

	require.NoError(t, server.Exchange(t.Context(), kubeAPIServer, flag))
	compare(t, shown, readAPI(t, server.Cluster))
	for _, difference := range differences(stored, readEtcd(t, etcd)) {
		t.Errorf("in etcd, kube-apiserver has %s", difference)
	}
}

// work makes, changes and deletes a secret and a widget.
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
		{widgetsResource, "Widget", "widget-1", "widget-2"},
	} {
		objects := client.Resource(w.resource).Namespace("takeover")
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
	if kind == "Widget" {
		object.Object["spec"] = map[string]any{"color": "blue"}
	}
	return object
}

func TestTripodBesideKubeAPIServer(t *testing.T) {
	environment, flag := framework.ForTest(t), encrypted(t)
	first, err := environment.StartStock(t.Context(), framework.StockOptions{Args: []string{flag}})
	require.NoError(t, err)
	populate(t, first.Cluster)
	etcd := openEtcd(t, first.EtcdURL)
	before := readEtcd(t, etcd)
	second, err := first.Beside(t.Context(), tripod, flag)
	require.NoError(t, err)
	compare(t, readAPI(t, first.Cluster), readAPI(t, second.Cluster))

	// Each defines a resource, and the other serves it.
	for i, servers := range [][2]*framework.Stock{{first, second}, {second, first}} {
		group := fmt.Sprintf("group-%d.example.com", i)
		things := schema.GroupVersionResource{Group: group, Version: "v1", Resource: "things"}
		require.NoError(t, servers[0].Create(t.Context(), fmt.Sprintf(definition, group)))
		client, err := dynamic.NewForConfig(servers[1].Admin())
		require.NoError(t, err)
		framework.Eventually(t, servers[1].Name+" serves what "+servers[0].Name+" was told", func(ctx context.Context) error {
			_, err := client.Resource(things).Create(ctx, newObject(things, "Thing", "thing"), metav1.CreateOptions{})
			if apierrors.IsAlreadyExists(err) {
				return nil
			}
			return err
		})
		other, err := dynamic.NewForConfig(servers[0].Admin())
		require.NoError(t, err)
		if _, err := other.Resource(things).Get(t.Context(), "thing", metav1.GetOptions{}); err != nil {
			t.Errorf("%s does not see what was made through %s: %v", servers[0].Name, servers[1].Name, err)
		}
	}
	after := readEtcd(t, etcd)
	require.NoError(t, second.Process.Stop())
	for key, was := range before {
		if is, exists := after[key]; !restless.MatchString(key) && (!exists || is.revision != was.revision) {
			t.Errorf("%s was written or removed while both ran", key)
		}
	}
	compare(t, readAPI(t, first.Cluster), readAPI(t, first.Cluster))
}

const definition = `apiVersion: apiextensions.k8s.io/v1
kind: CustomResourceDefinition
metadata: {name: things.%[1]s}
spec:
  group: %[1]s
  scope: Cluster
  names: {plural: things, kind: Thing}
  versions:
  - name: v1
    served: true
    storage: true
    schema: {openAPIV3Schema: {type: object, x-kubernetes-preserve-unknown-fields: true}}
`
