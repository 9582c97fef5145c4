// Copyright The Tripod Authors.
// SPDX-License-Identifier: Apache-2.0

package framework

import (
	"context"
	"errors"
	"fmt"
	"io"
	"strings"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/yaml"
	"k8s.io/client-go/dynamic"
)

var crdKind = schema.GroupKind{Group: "apiextensions.k8s.io", Kind: "CustomResourceDefinition"}

// Create creates the objects of a YAML stream in order, as the administrator. After a CustomResourceDefinition it waits until its resource
// is served.
func (c *Cluster) Create(ctx context.Context, manifests string) error {
	client, err := dynamic.NewForConfig(c.Admin())
	if err != nil {
		return fmt.Errorf("cannot make a client: %w", err)
	}
	objects, err := Decode(manifests)
	if err != nil {
		return err
	}
	for _, object := range objects {
		if err := CreateObject(ctx, client, object); err != nil {
			return fmt.Errorf("cannot create %s %s in %s: %w", object.GetKind(), object.GetName(), c.Name, err)
		}
	}
	return nil
}

// Decode returns the objects of a YAML stream.
func Decode(manifests string) ([]*unstructured.Unstructured, error) {
	decoder := yaml.NewYAMLOrJSONDecoder(strings.NewReader(manifests), len(manifests))
	for objects := []*unstructured.Unstructured(nil); ; {
		object := &unstructured.Unstructured{}
		switch err := decoder.Decode(object); {
		case errors.Is(err, io.EOF):
			return objects, nil
		case err != nil:
			return nil, fmt.Errorf("cannot read the manifests: %w", err)
		}
		objects = append(objects, object)
	}
}

// CreateObject creates an object. After a CustomResourceDefinition it waits until its resource is served.
func CreateObject(ctx context.Context, client dynamic.Interface, object *unstructured.Unstructured) error {
	gvk := object.GroupVersionKind()
	resource, _ := meta.UnsafeGuessKindToResource(gvk)
	_, err := client.Resource(resource).Namespace(object.GetNamespace()).Create(ctx, object, metav1.CreateOptions{})
	if err != nil || gvk.GroupKind() != crdKind {
		return err
	}
	served, err := resourceOf(object)
	if err != nil {
		return err
	}
	return Poll(ctx, served.String()+" is served", func(ctx context.Context) error {
		_, err := client.Resource(served).List(ctx, metav1.ListOptions{})
		return err
	})
}

// resourceOf returns the resource that a CustomResourceDefinition defines, in its first version.
func resourceOf(crd *unstructured.Unstructured) (schema.GroupVersionResource, error) {
	var resource schema.GroupVersionResource
	group, _, err1 := unstructured.NestedString(crd.Object, "spec", "group")
	plural, _, err2 := unstructured.NestedString(crd.Object, "spec", "names", "plural")
	versions, _, err3 := unstructured.NestedSlice(crd.Object, "spec", "versions")
	if err := errors.Join(err1, err2, err3); err != nil {
		return resource, err
	}
	if len(versions) > 0 {
		version, _ := versions[0].(map[string]any)
		resource.Version, _, _ = unstructured.NestedString(version, "name")
	}
	resource.Group, resource.Resource = group, plural
	return resource, nil
}
