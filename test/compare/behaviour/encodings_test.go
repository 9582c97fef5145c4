// Copyright The Tripod Authors.
// SPDX-License-Identifier: Apache-2.0

package behaviour

import (
	"bytes"
	"fmt"
	"net/http"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	cbor "k8s.io/apimachinery/pkg/runtime/serializer/cbor/direct"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/rest"

	"github.com/tripod-k8s/tripod/test/framework"
)

func TestTablesHaveTheColumnsOfTheResource(t *testing.T) {
	forCoreAndCustom(t, func(t *testing.T, r resource, namespace string) {
		create(t, r.in(t, namespace), r.object("a", "red"))
		table := decode[metav1.Table](t, get(t, cluster.Admin(), r.path(namespace)+"/a", "application/json;as=Table;g=meta.k8s.io;v=v1"), http.StatusOK)
		if len(table.Rows) != 1 || table.Rows[0].Cells[0] != "a" {
			t.Errorf("rows: %v", table.Rows)
		}
		var columns []string
		for _, column := range table.ColumnDefinitions {
			columns = append(columns, column.Name)
		}
		want := map[string]string{"ConfigMap": "[Name Data Age]", "Widget": "[Name Size]"}[r.kind]
		assert.Equal(t, want, fmt.Sprint(columns), "columns")
	})
}

func TestMetadataIsServedAlone(t *testing.T) {
	forCoreAndCustom(t, func(t *testing.T, r resource, namespace string) {
		create(t, r.in(t, namespace), r.object("a", "red"))
		resp := get(t, cluster.Admin(), r.path(namespace), "application/json;as=PartialObjectMetadataList;g=meta.k8s.io;v=v1")
		list := decode[metav1.PartialObjectMetadataList](t, resp, http.StatusOK)
		if list.Kind != "PartialObjectMetadataList" || strings.Contains(string(resp.Body), "red") {
			t.Errorf("got %s", resp.Body)
		}
	})
}

func TestBuiltInResourcesAreServedInProtobuf(t *testing.T) {
	t.Parallel()
	namespace := createNamespace(t)
	config := rest.CopyConfig(cluster.Admin())
	config.ContentType, config.AcceptContentTypes = runtime.ContentTypeProtobuf, runtime.ContentTypeProtobuf
	client := kubeClient(t, config).CoreV1().ConfigMaps(namespace)
	object := &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Name: "a"}, Data: map[string]string{"color": "red"}}
	created, err := client.Create(t.Context(), object, metav1.CreateOptions{})
	require.NoError(t, err)
	assert.Equal(t, "red", created.Data["color"], "created %v", created)
	watcher, err := client.Watch(t.Context(), metav1.ListOptions{FieldSelector: "metadata.name=a"})
	require.NoError(t, err)
	defer watcher.Stop()
	if event := <-watcher.ResultChan(); event.Type != watch.Added {
		t.Errorf("got %v", event)
	}
	resp := get(t, cluster.Admin(), configMaps.path(namespace)+"/a", runtime.ContentTypeProtobuf)
	if resp.Header.Get("Content-Type") != runtime.ContentTypeProtobuf || !bytes.HasPrefix(resp.Body, []byte("k8s\x00")) {
		t.Errorf("got %s: %q", resp.Header.Get("Content-Type"), resp.Body)
	}
}

func TestCustomResourcesAreNotServedInProtobuf(t *testing.T) {
	t.Parallel()
	gvr, err := sharedWidgets()
	require.NoError(t, err)
	r := resource{gvr, "Widget"}
	path := r.path(createNamespace(t))
	if resp := get(t, cluster.Admin(), path, runtime.ContentTypeProtobuf); resp.Code != http.StatusNotAcceptable {
		t.Errorf("got %d: %s", resp.Code, resp.Body)
	}
	resp := get(t, cluster.Admin(), path, runtime.ContentTypeProtobuf+","+runtime.ContentTypeJSON)
	decode[unstructured.Unstructured](t, resp, http.StatusOK)
}

func TestCBORIsRefusedWithoutItsFeatureGate(t *testing.T) {
	forCoreAndCustom(t, func(t *testing.T, r resource, namespace string) {
		resp := postCBOR(t, cluster, r, namespace)
		assert.Equal(t, http.StatusUnsupportedMediaType, resp.Code, "got %d: %s", resp.Code, resp.Body)
	})
}

func TestCBORIsServedWithItsFeatureGate(t *testing.T) {
	t.Parallel()
	gated, err := optional()
	require.NoError(t, err)
	crd := newWidgets()
	widgets := resource{installCRD(t, gated, crd), "Widget"}
	for _, r := range []resource{configMaps, widgets} {
		t.Run(r.kind, func(t *testing.T) {
			namespace := framework.CreateNamespace(t, gated)
			resp := postCBOR(t, gated, r, namespace)
			if resp.Code != http.StatusCreated || resp.Header.Get("Content-Type") != runtime.ContentTypeCBOR {
				t.Fatalf("got %d %s: %q", resp.Code, resp.Header.Get("Content-Type"), resp.Body)
			}
			var created map[string]any
			require.NoError(t, cbor.Unmarshal(resp.Body, &created))
			assert.Equal(t, "red", color(&unstructured.Unstructured{Object: created}), "created %v", created)
			list := get(t, gated.Admin(), r.path(namespace), runtime.ContentTypeCBOR)
			if err := cbor.Unmarshal(list.Body, &created); err != nil || created["kind"] != r.kind+"List" {
				t.Errorf("list: %v: %q", err, list.Body)
			}
		})
	}
}

// postCBOR creates an object that is sent in CBOR.
func postCBOR(t testing.TB, c *framework.Cluster, r resource, namespace string) response {
	t.Helper()
	body, err := cbor.Marshal(r.object("a", "red").Object)
	require.NoError(t, err)
	return request(t, c.Admin(), http.MethodPost, r.path(namespace), map[string][]string{
		"Content-Type": {runtime.ContentTypeCBOR}, "Accept": {runtime.ContentTypeCBOR + ", application/json;q=0.5"},
	}, body)
}
