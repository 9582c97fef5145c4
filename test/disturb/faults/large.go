// Copyright The Tripod Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"strings"
	"sync"
	"sync/atomic"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/dynamic"
)

// large is a kind of large object.
type large struct {
	resource  schema.GroupVersionResource
	namespace string
	object    func(name, filling string) map[string]any
}

const (
	// fillingSize is the size of the padding in each large object.
	fillingSize = 700 << 10
	// largeWrites limits the number of large objects, so that they fit on etcd's disk.
	largeWrites = 200
	// largeUsers is the number of users of each large kind, per front.
	largeUsers = 4
)

var (
	largeConfigMap = large{
		resource: schema.GroupVersionResource{Version: "v1", Resource: "configmaps"}, namespace: metav1.NamespaceDefault,
		object: func(name, filling string) map[string]any { return largeData("v1", "ConfigMap", name, filling) },
	}
	largeCustom = large{
		resource: schema.GroupVersionResource{Group: "example.com", Version: "v1", Resource: custom.Plural}, namespace: metav1.NamespaceDefault,
		object: func(name, filling string) map[string]any {
			return largeData("example.com/v1", custom.Kind, name, filling)
		},
	}
	// largeDefinition is a CRD, the only kind that every replica of extensions keeps.
	largeDefinition = large{
		resource: schema.GroupVersionResource{Group: "apiextensions.k8s.io", Version: "v1", Resource: "customresourcedefinitions"},
		object: func(_, filling string) map[string]any {
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
	}
)

func largeData(version, kind, name, filling string) map[string]any {
	return map[string]any{"apiVersion": version, "kind": kind, "metadata": map[string]any{"name": name}, "data": map[string]any{"value": filling}}
}

// put writes an object with new content.
func (l large) put(ctx context.Context, client dynamic.Interface, name string, number int) error {
	o := &unstructured.Unstructured{Object: l.object(name, strings.Repeat(string('a'+rune(number%26)), fillingSize))}
	_, err := client.Resource(l.resource).Namespace(l.namespace).Apply(ctx, o.GetName(), o, metav1.ApplyOptions{FieldManager: "faults", Force: true})
	return err
}

// useLarge makes users of each front write and read large objects until the context ends.
func (c *cluster) useLarge(ctx context.Context) *sync.WaitGroup {
	var using sync.WaitGroup
	var left atomic.Int64
	left.Store(largeWrites)
	use := func(front string, kind large, name string) {
		using.Go(func() {
			client, err := c.largeUser(front)
			for i := 0; err == nil && ctx.Err() == nil; i++ {
				if left.Add(-1) >= 0 {
					_ = kind.put(ctx, client, name, i) // the next write follows anyway
				}
				_, _ = client.Resource(kind.resource).Namespace(kind.namespace).List(ctx, metav1.ListOptions{Limit: 1})
			}
		})
	}
	for _, front := range c.fronts {
		for i := range largeUsers {
			name := fmt.Sprintf("large-%s-%d", front, i)
			use(front, largeConfigMap, name)
			use(front, largeCustom, name)
		}
	}
	use(c.fronts[0], largeDefinition, "")
	return &using
}

// largeUser returns a user with a connection of its own to a front.
func (c *cluster) largeUser(front string) (dynamic.Interface, error) {
	tls, err := c.tlsConfig()
	if err != nil {
		return nil, err
	}
	config := c.admin()
	config.Host = c.urls[front]
	return dynamic.NewForConfigAndClient(config, &http.Client{Transport: newTransport(tls, impatient), Timeout: requestTimeout})
}

// writeUntilItFails writes large objects until etcd rejects one. etcd has some room left in its existing files.
func (c *cluster) writeUntilItFails(ctx context.Context) error {
	client, err := dynamic.NewForConfigAndClient(c.admin(), c.administrator)
	if err != nil {
		return err
	}
	for i := range largeWrites {
		if err := largeConfigMap.put(ctx, client, "large", i); err != nil {
			return nil //nolint:nilerr // the write should fail
		}
	}
	return errors.New("etcd has still room")
}
