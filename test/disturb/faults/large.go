// Copyright The Tripod Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"errors"
	"strings"
	"sync"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/dynamic"
)

// large is a kind of object that users write who need much memory.
type large struct {
	resource  schema.GroupVersionResource
	namespace string
	object    func(filling string) map[string]any
}

// fillingSize is how many bytes of each large object mean nothing, and largeWrites how many are written of a kind at most.
const (
	fillingSize = 700 << 10
	largeWrites = 150
)

var largeConfigMap = large{
	resource: schema.GroupVersionResource{Version: "v1", Resource: "configmaps"}, namespace: metav1.NamespaceDefault,
	object: func(filling string) map[string]any { return largeData("v1", "ConfigMap", filling) },
}

// larges are objects of which each service keeps some. Every replica of extensions keeps definitions.
var larges = []large{
	largeConfigMap,
	{
		resource: schema.GroupVersionResource{Group: "example.com", Version: "v1", Resource: custom.Plural}, namespace: metav1.NamespaceDefault,
		object: func(filling string) map[string]any { return largeData("example.com/v1", custom.Kind, filling) },
	},
	{
		resource: schema.GroupVersionResource{Group: "apiextensions.k8s.io", Version: "v1", Resource: "customresourcedefinitions"},
		object: func(filling string) map[string]any {
			return map[string]any{
				"apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinition", "metadata": map[string]any{"name": "larges.example.com"},
				"spec": map[string]any{
					"group": "example.com", "scope": "Namespaced", "names": map[string]any{"plural": "larges", "kind": "Large"},
					"versions": []any{map[string]any{
						"name": "v1", "served": true, "storage": true,
						"schema": map[string]any{"openAPIV3Schema": map[string]any{"type": "object", "description": filling}},
					}},
				},
			}
		},
	},
}

func largeData(version, kind, filling string) map[string]any {
	return map[string]any{"apiVersion": version, "kind": kind, "metadata": map[string]any{"name": "large"}, "data": map[string]any{"value": filling}}
}

// put writes the object, other than before.
func (l large) put(ctx context.Context, client dynamic.Interface, number int) error {
	o := &unstructured.Unstructured{Object: l.object(strings.Repeat(string('a'+rune(number%26)), fillingSize))}
	_, err := client.Resource(l.resource).Namespace(l.namespace).Apply(ctx, o.GetName(), o, metav1.ApplyOptions{FieldManager: "faults", Force: true})
	return err
}

// writeLarge has users write large objects until the context ends.
func (c *cluster) writeLarge(ctx context.Context, kinds ...large) *sync.WaitGroup {
	var writing sync.WaitGroup
	for _, kind := range kinds {
		writing.Go(func() {
			client, err := dynamic.NewForConfigAndClient(c.admin(), c.administrator)
			for i := 0; err == nil && i < largeWrites && ctx.Err() == nil; i++ {
				_ = kind.put(ctx, client, i) // the next one is written anyhow
			}
		})
	}
	return &writing
}

// writeUntilItFails writes large objects until etcd cannot. It has some room in files that it has made already.
func (c *cluster) writeUntilItFails(ctx context.Context) error {
	client, err := dynamic.NewForConfigAndClient(c.admin(), c.administrator)
	if err != nil {
		return err
	}
	for i := range 2 * largeWrites {
		if err := largeConfigMap.put(ctx, client, i); err != nil {
			return nil //nolint:nilerr // that is what was wanted
		}
	}
	return errors.New("etcd has still room")
}
