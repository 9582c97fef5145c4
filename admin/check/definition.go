// Copyright The Tripod Authors.
// SPDX-License-Identifier: Apache-2.0

package check

import (
	"context"
	"errors"
	"fmt"

	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/dynamic"
)

const (
	version = "v1"
	plural  = "checks"
	kind    = "Check"
)

// group is unique to the run, so that runs do not share a CustomResourceDefinition.
func (c *Check) group() string { return c.Name + ".tripod-k8s.io" }

func (c *Check) meta() map[string]any {
	return map[string]any{"name": c.Name, "labels": map[string]any{label: c.Name}}
}

func (c *Check) configMap() subject {
	return subject{
		resource: schema.GroupVersionResource{Version: "v1", Resource: "configmaps"},
		object: &unstructured.Unstructured{Object: map[string]any{
			"apiVersion": "v1", "kind": "ConfigMap", "metadata": c.meta(), "data": map[string]any{"value": before},
		}},
		path: []string{"data", "value"},
	}
}

func (c *Check) customResource() subject {
	return subject{
		resource: schema.GroupVersionResource{Group: c.group(), Version: version, Resource: plural},
		object: &unstructured.Unstructured{Object: map[string]any{
			"apiVersion": c.group() + "/" + version, "kind": kind, "metadata": c.meta(), "spec": map[string]any{"value": before},
		}},
		path: []string{"spec", "value"},
	}
}

// defined calls do while a custom resource is defined.
func (c *Check) defined(ctx context.Context, do func() error) (err error) {
	client := c.Client.Resource(apiextensionsv1.SchemeGroupVersion.WithResource("customresourcedefinitions"))
	definition, err := c.definition()
	if err != nil {
		return err
	}
	what := "CustomResourceDefinition " + definition.GetName()
	made, err := client.Create(ctx, definition, metav1.CreateOptions{})
	if err != nil {
		return fmt.Errorf("cannot create %s: %w", what, err)
	}
	defer func() {
		if cleanUpErr := c.cleanUp(ctx, client, made); cleanUpErr != nil {
			err = errors.Join(err, cleanUpErr)
		} else if err == nil {
			c.report("deleted", what)
		}
	}()
	if err := c.established(ctx, client, made); err != nil {
		return fmt.Errorf("%s is not established: %w", what, err)
	}
	c.report("defined", what)
	return do()
}

// established waits until the custom resource is served.
func (c *Check) established(ctx context.Context, client dynamic.ResourceInterface, made *unstructured.Unstructured) error {
	events, err := client.Watch(ctx, metav1.ListOptions{
		FieldSelector: "metadata.name=" + made.GetName(), ResourceVersion: made.GetResourceVersion(),
	})
	if err != nil {
		return err
	}
	defer events.Stop()
	for {
		select {
		case <-ctx.Done():
			return context.Cause(ctx)
		case event, open := <-events.ResultChan():
			if !open {
				return errors.New("its watch ended")
			}
			object, ok := event.Object.(*unstructured.Unstructured)
			if !ok {
				return apierrors.FromObject(event.Object)
			}
			if isEstablished(object) {
				return nil
			}
		}
	}
}

func isEstablished(object *unstructured.Unstructured) bool {
	var definition apiextensionsv1.CustomResourceDefinition
	if err := runtime.DefaultUnstructuredConverter.FromUnstructured(object.Object, &definition); err != nil {
		return false
	}
	for _, condition := range definition.Status.Conditions {
		if condition.Type == apiextensionsv1.Established {
			return condition.Status == apiextensionsv1.ConditionTrue
		}
	}
	return false
}

func (c *Check) definition() (*unstructured.Unstructured, error) {
	text := apiextensionsv1.JSONSchemaProps{Type: "string"}
	spec := apiextensionsv1.JSONSchemaProps{Type: "object", Properties: map[string]apiextensionsv1.JSONSchemaProps{"value": text}}
	definition := &apiextensionsv1.CustomResourceDefinition{
		TypeMeta:   metav1.TypeMeta{APIVersion: apiextensionsv1.SchemeGroupVersion.String(), Kind: "CustomResourceDefinition"},
		ObjectMeta: metav1.ObjectMeta{Name: plural + "." + c.group(), Labels: map[string]string{label: c.Name}},
		Spec: apiextensionsv1.CustomResourceDefinitionSpec{
			Group: c.group(),
			Scope: apiextensionsv1.NamespaceScoped,
			Names: apiextensionsv1.CustomResourceDefinitionNames{Plural: plural, Singular: "check", Kind: kind, ListKind: kind + "List"},
			Versions: []apiextensionsv1.CustomResourceDefinitionVersion{{
				Name: version, Served: true, Storage: true,
				Schema: &apiextensionsv1.CustomResourceValidation{OpenAPIV3Schema: &apiextensionsv1.JSONSchemaProps{
					Type: "object", Properties: map[string]apiextensionsv1.JSONSchemaProps{"spec": spec},
				}},
			}},
		},
	}
	object, err := runtime.DefaultUnstructuredConverter.ToUnstructured(definition)
	if err != nil {
		return nil, err
	}
	return &unstructured.Unstructured{Object: object}, nil
}
