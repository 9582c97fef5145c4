// Copyright The Tripod Authors.
// SPDX-License-Identifier: Apache-2.0

package upgrade

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/discovery"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/rest"

	"github.com/tripod-k8s/tripod/test/framework"
	"github.com/tripod-k8s/tripod/test/framework/inventory"
	"github.com/tripod-k8s/tripod/test/framework/usage"
)

var configMaps = schema.GroupVersionResource{Version: "v1", Resource: "configmaps"}

// applied is what a manager has applied to an object.
type applied struct {
	resource  schema.GroupVersionResource
	namespace string
	manager   string
	object    *unstructured.Unstructured
	// shown is the object as a version has shown it.
	shown *unstructured.Unstructured
	// changes is true if the manager changes the object whenever it applies the same. Defaults such as the present time do that.
	changes bool
}

func (a *applied) String() string { return fmt.Sprintf("%s %s", a.resource, a.object.GetName()) }

func (a *applied) of(client dynamic.Interface) dynamic.ResourceInterface {
	if a.namespace == "" {
		return client.Resource(a.resource)
	}
	return client.Resource(a.resource).Namespace(a.namespace)
}

func (a *applied) apply(ctx context.Context, client dynamic.Interface) (*unstructured.Unstructured, error) {
	return a.of(client).Apply(ctx, a.object.GetName(), a.object, metav1.ApplyOptions{FieldManager: a.manager})
}

// stored are objects with what their managers have applied.
type stored []*applied

// last are resources whose objects keep others from being created.
var last = []string{"resourcequotas", "limitranges", "validatingwebhookconfigurations", "mutatingwebhookconfigurations",
	"validatingadmissionpolicies", "mutatingadmissionpolicies", "validatingadmissionpolicybindings", "mutatingadmissionpolicybindings"}

// store applies an object of each built-in resource in each version that is served, and custom resources in two versions.
func store(t *testing.T, tripod *framework.Tripod, namespace string) stored {
	t.Helper()
	// Pods need a ServiceAccount.
	account := "apiVersion: v1\nkind: ServiceAccount\nmetadata: {name: default, namespace: " + namespace + "}\n---\n"
	require.NoError(t, tripod.Create(t.Context(), account+strings.ReplaceAll(inventory.Objects, "IMAGE", "example.com/image")))
	client, err := dynamic.NewForConfig(unlimited(tripod.Cluster))
	require.NoError(t, err)
	all := append(samples(t, tripod, namespace), shared(namespace)...)
	slices.SortStableFunc(all, func(a, b *applied) int {
		return cmp.Compare(slices.Index(last, a.resource.Resource), slices.Index(last, b.resource.Resource))
	})
	for _, a := range all {
		_, err := a.apply(t.Context(), client)
		assert.NoError(t, err, a)
	}
	if t.Failed() {
		t.FailNow()
	}
	changing := 0
	for _, a := range all {
		before, err := a.of(client).Get(t.Context(), a.object.GetName(), metav1.GetOptions{})
		require.NoError(t, err, a)
		after, err := a.apply(t.Context(), client)
		require.NoError(t, err, a)
		if a.changes = before.GetResourceVersion() != after.GetResourceVersion(); a.changes {
			changing++
		}
	}
	for _, a := range all {
		a.shown, err = a.of(client).Get(t.Context(), a.object.GetName(), metav1.GetOptions{})
		require.NoError(t, err, a)
	}
	t.Logf("%d objects are stored, of which %d change whenever they are applied", len(all), changing)
	assert.Less(t, changing, len(all)/5)
	return all
}

// samples returns Kubernetes' samples of what is served.
func samples(t *testing.T, tripod *framework.Tripod, namespace string) (all stored) {
	t.Helper()
	found, err := readSamples(t.Context(), namespace)
	require.NoError(t, err)
	client, err := discovery.NewDiscoveryClientForConfig(unlimited(tripod.Cluster))
	require.NoError(t, err)
	_, lists, err := client.ServerGroupsAndResources()
	require.NoError(t, err)
	for _, list := range lists {
		version, err := schema.ParseGroupVersion(list.GroupVersion)
		require.NoError(t, err)
		for _, resource := range list.APIResources {
			stub, ok := found[version.WithResource(resource.Name)]
			if !ok {
				continue
			}
			a := &applied{resource: version.WithResource(resource.Name), manager: "writer", object: &unstructured.Unstructured{}}
			require.NoError(t, json.Unmarshal([]byte(stub), &a.object.Object))
			dropUndeclared(a.object)
			a.object.SetAPIVersion(list.GroupVersion)
			a.object.SetKind(resource.Kind)
			if resource.Namespaced {
				a.namespace = namespace
			}
			all = append(all, a)
		}
	}
	assert.Greater(t, len(all), 60, "of %d samples", len(found))
	return all
}

// dropUndeclared drops fields of samples that no schema has. Servers ignore them, but not in server-side apply.
func dropUndeclared(o *unstructured.Unstructured) {
	delete(o.Object, "Value")
	delete(o.Object, "protocol")
	subjects, _ := o.Object["subjects"].([]any)
	for _, subject := range subjects {
		if s, ok := subject.(map[string]any); ok {
			delete(s, "apiVersion")
		}
	}
}

// shared returns objects that two managers share. The custom resource has another version for each.
func shared(namespace string) stored {
	older := inventory.Boats
	older.Version = "v1beta1"
	return stored{
		{resource: configMaps, namespace: namespace, manager: "one",
			object: usage.Object(configMaps, "ConfigMap", "shared", map[string]any{"data": map[string]any{"one": "a"}})},
		{resource: configMaps, namespace: namespace, manager: "other",
			object: usage.Object(configMaps, "ConfigMap", "shared", map[string]any{"data": map[string]any{"other": "b"}})},
		{resource: older, namespace: inventory.Namespace, manager: "one",
			object: usage.Object(older, "Boat", "ferry", map[string]any{
				"metadata": map[string]any{"labels": map[string]any{"a": "b"}}, "spec": map[string]any{"length": int64(90)},
			})},
		{resource: inventory.Boats, namespace: inventory.Namespace, manager: "other",
			object: usage.Object(inventory.Boats, "Boat", "ferry", map[string]any{"spec": map[string]any{"length": int64(90)}})},
	}
}

// expect expects that a version shows the same objects, and that it changes none if their managers apply the same once more.
func (s stored) expect(t *testing.T, tripod *framework.Tripod) {
	t.Helper()
	client, err := dynamic.NewForConfig(unlimited(tripod.Cluster))
	require.NoError(t, err)
	for _, a := range s {
		got, err := a.of(client).Get(t.Context(), a.object.GetName(), metav1.GetOptions{})
		if !assert.NoError(t, err, a) {
			continue
		}
		assert.Equal(t, fields(a.shown), fields(got), "%s", a)
	}
	for _, a := range s {
		if a.changes {
			continue
		}
		before, err := a.of(client).Get(t.Context(), a.object.GetName(), metav1.GetOptions{})
		require.NoError(t, err, a)
		after, err := a.apply(t.Context(), client)
		if assert.NoError(t, err, a) {
			assert.Equal(t, content(before), content(after), "%s is changed", a)
		}
	}
}

// fields returns an object without a status that is empty. A version shows one even for a kind to which it has added the status.
func fields(o *unstructured.Unstructured) map[string]any {
	all := maps.Clone(o.Object)
	if status, ok := all["status"].(map[string]any); ok && len(status) == 0 {
		delete(all, "status")
	}
	return all
}

// content returns the fields of an object without its revision and when managers changed it. A version may store an object again in its own
// form.
func content(o *unstructured.Unstructured) map[string]any {
	o = o.DeepCopy()
	o.SetResourceVersion("")
	managers := o.GetManagedFields()
	for i := range managers {
		managers[i].Time = nil
	}
	o.SetManagedFields(managers)
	return fields(o)
}

// unlimited returns the configuration of a client that sends as many requests as it likes.
func unlimited(cluster *framework.Cluster) *rest.Config {
	config := cluster.Admin()
	config.QPS = -1
	return config
}
