// Copyright The Tripod Authors.
// SPDX-License-Identifier: Apache-2.0

package controllers_test

import (
	"context"
	"fmt"
	"testing"

	"github.com/stretchr/testify/require"

	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	apiextensions "k8s.io/apiextensions-apiserver/pkg/client/clientset/clientset"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/dynamic"
	"k8s.io/utils/ptr"

	"github.com/tripod-k8s/tripod/test/framework"
)

// resource is something to create objects of.
type resource struct {
	schema.GroupVersionResource
	kind string
}

var (
	configMaps  = resource{schema.GroupVersionResource{Version: "v1", Resource: "configmaps"}, "ConfigMap"}
	deployments = resource{schema.GroupVersionResource{Group: "apps", Version: "v1", Resource: "deployments"}, "Deployment"}
)

// in returns a client for the objects in a namespace.
func (r resource) in(namespace string) dynamic.ResourceInterface {
	return objects.Resource(r.GroupVersionResource).Namespace(namespace)
}

// create creates an object that is valid for each resource of these tests. finalizers may be empty.
func (r resource) create(t testing.TB, namespace, name string, finalizers []string, owners ...metav1.OwnerReference) *unstructured.Unstructured {
	t.Helper()
	object := &unstructured.Unstructured{Object: map[string]any{}}
	object.SetGroupVersionKind(r.GroupVersion().WithKind(r.kind))
	object.SetName(name)
	object.SetFinalizers(finalizers)
	object.SetOwnerReferences(owners)
	if r == deployments {
		object.Object["spec"] = map[string]any{
			"replicas": int64(0),
			"selector": map[string]any{"matchLabels": map[string]any{"app": name}},
			"template": map[string]any{
				"metadata": map[string]any{"labels": map[string]any{"app": name}},
				"spec":     map[string]any{"containers": []any{map[string]any{"name": "main", "image": "example.com/main"}}},
			},
		}
	}
	created, err := r.in(namespace).Create(t.Context(), object, metav1.CreateOptions{})
	require.NoError(t, err)
	return created
}

// gone returns nil when there is no such object.
func (r resource) gone(ctx context.Context, namespace, name string) error {
	return gone(ctx, r.kind+" "+name, func(ctx context.Context) (metav1.Object, error) {
		return r.in(namespace).Get(ctx, name, metav1.GetOptions{})
	})
}

// release removes the finalizers of an object.
func (r resource) release(t testing.TB, namespace, name string) {
	t.Helper()
	patch := []byte(`[{"op":"remove","path":"/metadata/finalizers"}]`)
	if _, err := r.in(namespace).Patch(t.Context(), name, types.JSONPatchType, patch, metav1.PatchOptions{}); err != nil {
		t.Fatal(err)
	}
}

// newWidgets makes a CRD in a group of its own and returns when it is Established.
func newWidgets(t testing.TB) resource {
	t.Helper()
	crds, err := apiextensions.NewForConfig(tripod.Admin())
	require.NoError(t, err)
	group := framework.UniqueName("test") + ".example.com"
	crd := &apiextensionsv1.CustomResourceDefinition{
		ObjectMeta: metav1.ObjectMeta{Name: "widgets." + group},
		Spec: apiextensionsv1.CustomResourceDefinitionSpec{
			Group: group,
			Scope: apiextensionsv1.NamespaceScoped,
			Names: apiextensionsv1.CustomResourceDefinitionNames{Plural: "widgets", Singular: "widget", Kind: "Widget", ListKind: "WidgetList"},
			Versions: []apiextensionsv1.CustomResourceDefinitionVersion{{
				Name: "v1", Served: true, Storage: true,
				Schema: &apiextensionsv1.CustomResourceValidation{OpenAPIV3Schema: &apiextensionsv1.JSONSchemaProps{
					Type: "object", XPreserveUnknownFields: ptr.To(true),
				}},
			}},
		},
	}
	definitions := crds.ApiextensionsV1().CustomResourceDefinitions()
	if _, err := definitions.Create(t.Context(), crd, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	framework.Eventually(t, crd.Name+" is established", func(ctx context.Context) error {
		crd, err := definitions.Get(ctx, crd.Name, metav1.GetOptions{})
		if err != nil {
			return err
		}
		for _, condition := range crd.Status.Conditions {
			if condition.Type == apiextensionsv1.Established && condition.Status == apiextensionsv1.ConditionTrue {
				return nil
			}
		}
		return fmt.Errorf("conditions: %v", crd.Status.Conditions)
	})
	return resource{schema.GroupVersionResource{Group: group, Version: "v1", Resource: "widgets"}, "Widget"}
}
