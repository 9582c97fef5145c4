// Copyright The Tripod Authors.
// SPDX-License-Identifier: Apache-2.0

package behaviour

import (
	"context"
	"fmt"
	"sync"
	"testing"

	"github.com/stretchr/testify/require"

	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	apiextensions "k8s.io/apiextensions-apiserver/pkg/client/clientset/clientset"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/dynamic"

	"github.com/tripod-k8s/tripod/test/framework"
)

// newWidgets returns a CRD in a group of its own. Widgets have the fields of ConfigMaps, and more, so that tests can
// treat both alike.
func newWidgets() *apiextensionsv1.CustomResourceDefinition {
	group := framework.UniqueName("test") + ".example.com"
	text := apiextensionsv1.JSONSchemaProps{Type: "string"}
	return &apiextensionsv1.CustomResourceDefinition{
		ObjectMeta: metav1.ObjectMeta{Name: "widgets." + group},
		Spec: apiextensionsv1.CustomResourceDefinitionSpec{
			Group: group,
			Scope: apiextensionsv1.NamespaceScoped,
			Names: apiextensionsv1.CustomResourceDefinitionNames{
				Plural: "widgets", Singular: "widget", Kind: "Widget", ListKind: "WidgetList", Categories: []string{"all"},
			},
			Versions: []apiextensionsv1.CustomResourceDefinitionVersion{{
				Name: "v1", Served: true, Storage: true,
				Schema: &apiextensionsv1.CustomResourceValidation{OpenAPIV3Schema: &apiextensionsv1.JSONSchemaProps{
					Type: "object",
					Properties: map[string]apiextensionsv1.JSONSchemaProps{
						"data": {Type: "object", AdditionalProperties: &apiextensionsv1.JSONSchemaPropsOrBool{Allows: true, Schema: &text}},
						"spec": {Type: "object", Properties: map[string]apiextensionsv1.JSONSchemaProps{
							"size": {Type: "integer", Format: "int32"},
						}},
						"status": {Type: "object", Properties: map[string]apiextensionsv1.JSONSchemaProps{
							"size": {Type: "integer", Format: "int32"},
						}},
					},
				}},
				AdditionalPrinterColumns: []apiextensionsv1.CustomResourceColumnDefinition{
					{Name: "Size", Type: "integer", JSONPath: ".spec.size"},
				},
			}},
		},
	}
}

// installCRD creates the CRD, waits until its condition Established is true, and no longer, and removes it with the test.
func installCRD(t testing.TB, c *framework.Cluster, crd *apiextensionsv1.CustomResourceDefinition) schema.GroupVersionResource {
	t.Helper()
	t.Cleanup(func() {
		client, err := apiextensions.NewForConfig(c.Admin())
		if err == nil {
			err = client.ApiextensionsV1().CustomResourceDefinitions().Delete(context.Background(), crd.Name, metav1.DeleteOptions{})
		}
		if err != nil && !apierrors.IsNotFound(err) {
			t.Error(err)
		}
	})
	gvr, err := createCRD(t.Context(), c, crd)
	require.NoError(t, err)
	return gvr
}

func createCRD(ctx context.Context, c *framework.Cluster, crd *apiextensionsv1.CustomResourceDefinition) (schema.GroupVersionResource, error) {
	gvr := schema.GroupVersionResource{Group: crd.Spec.Group, Version: crd.Spec.Versions[0].Name, Resource: crd.Spec.Names.Plural}
	client, err := apiextensions.NewForConfig(c.Admin())
	if err != nil {
		return gvr, err
	}
	crds := client.ApiextensionsV1().CustomResourceDefinitions()
	if _, err := crds.Create(ctx, crd, metav1.CreateOptions{}); err != nil {
		return gvr, err
	}
	watcher, err := crds.Watch(ctx, metav1.ListOptions{FieldSelector: "metadata.name=" + crd.Name})
	if err != nil {
		return gvr, err
	}
	defer watcher.Stop()
	for event := range watcher.ResultChan() {
		if crd, ok := event.Object.(*apiextensionsv1.CustomResourceDefinition); ok && established(crd) {
			return gvr, nil
		}
	}
	return gvr, fmt.Errorf("the watch ended before %s was established", crd.Name)
}

func established(crd *apiextensionsv1.CustomResourceDefinition) bool {
	for _, condition := range crd.Status.Conditions {
		if condition.Type == apiextensionsv1.Established {
			return condition.Status == apiextensionsv1.ConditionTrue
		}
	}
	return false
}

// sharedWidgets is the CRD of tests that are not about CRDs.
var sharedWidgets = sync.OnceValues(func() (schema.GroupVersionResource, error) {
	return createCRD(context.Background(), cluster, newWidgets())
})

// resource is something to create objects of, served by core or by extensions.
type resource struct {
	schema.GroupVersionResource
	kind string
}

var configMaps = resource{schema.GroupVersionResource{Version: "v1", Resource: "configmaps"}, "ConfigMap"}

// forCoreAndCustom runs a test with a resource of core and with one of extensions, and a namespace for each.
func forCoreAndCustom(t *testing.T, test func(t *testing.T, r resource, namespace string)) {
	t.Run("core", func(t *testing.T) {
		t.Parallel()
		test(t, configMaps, framework.CreateNamespace(t, cluster))
	})
	t.Run("custom", func(t *testing.T) {
		t.Parallel()
		gvr, err := sharedWidgets()
		require.NoError(t, err)
		test(t, resource{gvr, "Widget"}, framework.CreateNamespace(t, cluster))
	})
}

// object returns an object with data.color.
func (r resource) object(name, color string) *unstructured.Unstructured {
	return &unstructured.Unstructured{Object: map[string]any{
		"apiVersion": r.GroupVersion().String(),
		"kind":       r.kind,
		"metadata":   map[string]any{"name": name},
		"data":       map[string]any{"color": color},
	}}
}

// in returns a client of the administrator for the objects in a namespace of the shared cluster.
func (r resource) in(t testing.TB, namespace string) dynamic.ResourceInterface {
	t.Helper()
	return r.of(t, cluster, namespace)
}

func (r resource) of(t testing.TB, c *framework.Cluster, namespace string) dynamic.ResourceInterface {
	t.Helper()
	return dynamicClient(t, c.Admin()).Resource(r.GroupVersionResource).Namespace(namespace)
}

// path returns the URL path of the objects in a namespace.
func (r resource) path(namespace string) string {
	if r.Group == "" {
		return fmt.Sprintf("/api/%s/namespaces/%s/%s", r.Version, namespace, r.Resource)
	}
	return fmt.Sprintf("/apis/%s/%s/namespaces/%s/%s", r.Group, r.Version, namespace, r.Resource)
}

func color(object *unstructured.Unstructured) string {
	value, _, _ := unstructured.NestedString(object.Object, "data", "color")
	return value
}
