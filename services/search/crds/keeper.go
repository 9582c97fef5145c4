// Copyright The Tripod Authors.
// SPDX-License-Identifier: Apache-2.0

package crds

import (
	"context"
	"errors"
	"sync/atomic"
	"time"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/client-go/dynamic"
	"k8s.io/component-base/metrics"
	"k8s.io/component-base/metrics/legacyregistry"
	"k8s.io/klog/v2"
	"sigs.k8s.io/yaml"

	"github.com/tripod-k8s/tripod/services/search/hub"
)

// checkInterval is how often definitions are looked at, whether or not they have changed.
const checkInterval = 20 * time.Second

var restored = metrics.NewCounter(&metrics.CounterOpts{
	Name: "tripod_search_definitions_restored_total",
	Help: "How often search has restored a CustomResourceDefinition of its own that lacked fields.", StabilityLevel: metrics.ALPHA,
})

// Keeper keeps the fields of the definitions. Other definitions of the same kinds, such as those of Clusterpedia, lack some.
// While they are in force, each write of an object removes these fields from it.
type Keeper struct {
	client  dynamic.Interface
	objects *hub.Objects
	changed chan struct{}
	lacking atomic.Bool
}

// NewKeeper returns a keeper of the definitions of a cluster, which Apply has created.
func NewKeeper(client dynamic.Interface, memory *hub.Memory) *Keeper {
	legacyregistry.Register(restored) //nolint:errcheck // it is registered
	k := &Keeper{client: client, changed: make(chan struct{}, 1)}
	k.objects = hub.New(client, memory, func() {
		select {
		case k.changed <- struct{}{}:
		default:
		}
	})
	return k
}

// Complete reports whether objects can be written without losing fields.
func (k *Keeper) Complete() bool { return !k.lacking.Load() }

// Run restores definitions that lack fields until the context ends.
func (k *Keeper) Run(ctx context.Context) {
	defer k.objects.Stop()
	for ctx.Err() == nil {
		k.check(ctx)
		select {
		case <-ctx.Done():
		case <-k.changed:
		case <-time.After(checkInterval):
		}
	}
}

func (k *Keeper) check(ctx context.Context) {
	lacking := ""
	for file, name := range names {
		live, err := k.objects.One(resource, "", name)
		if errors.Is(err, hub.ErrUnread) {
			continue
		}
		if err != nil || lacks(definition(file), live.Object) {
			lacking = name
		}
	}
	k.lacking.Store(lacking != "")
	if lacking == "" {
		return
	}
	err := Apply(ctx, k.client)
	if err != nil {
		klog.ErrorS(err, "A CustomResourceDefinition of search lacks fields and cannot be restored, so search writes no PediaClusters",
			"name", lacking)
		return
	}
	restored.Inc()
	klog.InfoS("A CustomResourceDefinition of search was replaced by one that lacks fields. Search has restored it", "name", lacking)
}

// definition returns the definition of a file.
func definition(file string) map[string]any {
	var fields map[string]any
	text, err := files.ReadFile(file)
	if err == nil {
		err = yaml.Unmarshal(text, &fields)
	}
	if err != nil {
		panic(err) // it is embedded
	}
	return fields
}

// lacks reports whether a definition lacks a version, or a field, of ours.
func lacks(ours, live map[string]any) bool {
	schemas := map[string]map[string]any{}
	for _, version := range versionsOf(live) {
		schemas[version.name] = version.schema
	}
	for _, version := range versionsOf(ours) {
		if lacksField(version.schema, schemas[version.name]) {
			return true
		}
	}
	return false
}

type version struct {
	name   string
	schema map[string]any
}

func versionsOf(definition map[string]any) (all []version) {
	list, _, _ := unstructured.NestedSlice(definition, "spec", "versions")
	for _, one := range list {
		fields, _ := one.(map[string]any)
		name, _, _ := unstructured.NestedString(fields, "name")
		schema, _, _ := unstructured.NestedMap(fields, "schema", "openAPIV3Schema")
		all = append(all, version{name, schema})
	}
	return all
}

func lacksField(ours, live map[string]any) bool {
	if live == nil {
		return true
	}
	if live["x-kubernetes-preserve-unknown-fields"] == true {
		return false
	}
	has, _ := live["properties"].(map[string]any)
	wanted, _ := ours["properties"].(map[string]any)
	for name, field := range wanted {
		one, _ := has[name].(map[string]any)
		if lacksField(field.(map[string]any), one) {
			return true
		}
	}
	if items, ok := ours["items"].(map[string]any); ok {
		one, _ := live["items"].(map[string]any)
		return lacksField(items, one)
	}
	return false
}
