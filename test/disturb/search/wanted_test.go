// Copyright The Tripod Authors.
// SPDX-License-Identifier: Apache-2.0

package search

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/tripod-k8s/tripod/services/search/apis/search/v1beta1"
	"github.com/tripod-k8s/tripod/services/search/store/streams"
)

// tables have rows as text, by table.
type tables map[string][]string

func (t tables) add(table string, values ...any) {
	var row strings.Builder
	for _, value := range values {
		fmt.Fprintf(&row, "%v|", value)
	}
	t[table] = append(t[table], row.String())
}

// hashesOf describes the tables.
func hashesOf(all tables) (lines []string) {
	for _, name := range slices.Sorted(maps.Keys(all)) {
		rows := slices.Sorted(slices.Values(all[name]))
		lines = append(lines, fmt.Sprintf("table %s: %d rows, SHA-256 %x", name, len(rows), sha256.Sum256([]byte(strings.Join(rows, "\n")))))
	}
	return lines
}

// difference returns an error that names what tables do not have in common, or nil.
func difference(want, got tables) error {
	if slices.Equal(hashesOf(want), hashesOf(got)) {
		return nil
	}
	var text strings.Builder
	const named = 3
	for _, name := range slices.Compact(slices.Sorted(slices.Values(append(slices.Collect(maps.Keys(want)), slices.Collect(maps.Keys(got))...)))) {
		for _, side := range []struct {
			what      string
			these, in []string
		}{{"lacks", want[name], got[name]}, {"has", got[name], want[name]}} {
			rows := without(side.these, side.in)
			for _, row := range rows[:min(len(rows), named)] {
				fmt.Fprintf(&text, "\ntable %s %s (%d of such): %.600s", name, side.what, len(rows), row)
			}
		}
	}
	return fmt.Errorf("the tables and the clusters differ:%s", text.String())
}

// without returns the rows that other rows do not have, as often as they do not.
func without(rows, others []string) (left []string) {
	counts := map[string]int{}
	for _, row := range others {
		counts[row]++
	}
	for _, row := range rows {
		if counts[row]--; counts[row] < 0 {
			left = append(left, row)
		}
	}
	return left
}

// wanted returns the tables that follow from what the clusters have now.
func (s *scene) wanted(ctx context.Context) (tables, error) {
	want := tables{}
	for name, m := range s.members {
		resources := copied
		if name == hub { // of which everything is copied
			var err error
			if resources, err = s.copiedOf(ctx, name); err != nil {
				return nil, err
			}
		}
		for _, resource := range resources {
			want.add("streams", name, resource, true)
			if err := m.want(ctx, want, resource); err != nil {
				return nil, fmt.Errorf("%s in cluster %s: %w", resource, name, err)
			}
		}
	}
	return want, nil
}

// want adds what follows from the objects of a resource.
func (m *member) want(ctx context.Context, want tables, resource schema.GroupVersionResource) error {
	events := resource == streams.InvolvedEvents.GroupVersionResource
	if events {
		resource.Resource = "events"
	}
	list, err := m.client.Resource(resource).List(ctx, metav1.ListOptions{})
	if err != nil {
		return err
	}
	for i := range list.Items {
		o := &list.Items[i]
		resourceVersion := o.GetResourceVersion()
		asCopied(o, m.name)
		if events {
			if err := m.wantEvent(want, o); err != nil {
				return err
			}
			continue
		}
		unstructured.RemoveNestedField(o.Object, "metadata", "resourceVersion") // that of search counts the changes
		text, err := canonical(o.Object)
		if err != nil {
			return err
		}
		key := fmt.Sprint(m.name, " ", resource, " ", o.GetNamespace(), "/", o.GetName())
		want.add("objects", key, o.GetUID(), resourceVersion, o.GetCreationTimestamp().Unix(), text)
		for label, value := range o.GetLabels() {
			want.add("labels", key, label, value)
		}
		owners := map[any]bool{}
		for _, owner := range o.GetOwnerReferences() {
			if !owners[owner.UID] {
				owners[owner.UID] = true
				want.add("owners", key, m.name, owner.UID)
			}
		}
	}
	return nil
}

// wantEvent adds an event about a ConfigMap. Others are not copied.
func (m *member) wantEvent(want tables, o *unstructured.Unstructured) error {
	of, _, err := unstructured.NestedStringMap(o.Object, "involvedObject")
	if err != nil || of["kind"] != "ConfigMap" || of["apiVersion"] != "v1" {
		return err
	}
	text, err := canonical(o.Object)
	want.add("events", m.name, o.GetUID(), of["kind"], of["namespace"], of["name"], of["uid"], text)
	return err
}

// asCopied makes an object of a cluster what search makes of it.
func asCopied(o *unstructured.Unstructured, cluster string) {
	o.SetManagedFields(nil)
	annotations := o.GetAnnotations()
	if annotations == nil {
		annotations = map[string]string{}
	}
	delete(annotations, "kubectl.kubernetes.io/last-applied-configuration")
	annotations[v1beta1.ClusterAnnotation] = cluster
	annotations[v1beta1.ResourceVersionAnnotation] = o.GetResourceVersion()
	o.SetAnnotations(annotations)
}

// canonical returns the one text of a value.
func canonical(value any) (string, error) {
	text, err := json.Marshal(value)
	if err != nil {
		return "", err
	}
	decoder := json.NewDecoder(bytes.NewReader(text))
	decoder.UseNumber()
	var plain any
	if err := decoder.Decode(&plain); err != nil {
		return "", err
	}
	text, err = json.Marshal(plain)
	return string(text), err
}

// seen is a state that search has shown: objects by cluster, kind and name.
type seen map[string]string

// snapshot is what search has shown at a revision.
type snapshot struct {
	revision int64
	taken    time.Time
	objects  seen
}
