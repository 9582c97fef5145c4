// Copyright The Tripod Authors.
// SPDX-License-Identifier: Apache-2.0

package server

import (
	"bytes"
	"context"
	"encoding/json"
	"slices"

	"github.com/go-json-experiment/json/jsontext"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/tripod-k8s/tripod/services/search/rights"
	"github.com/tripod-k8s/tripod/services/search/store"
	"github.com/tripod-k8s/tripod/services/search/store/objectjson"
)

// eventsAnnotation has the events of an object, as JSON. Clusterpedia has given it this name.
const eventsAnnotation = "shadow.clusterpedia.io/events"

// injectEvents adds the events that search has of each object to its annotations, the latest first. If the reader sees an object by the
// RBAC of its cluster, that must show the events, too.
func (h *Handler) injectEvents(ctx context.Context, objects []store.Found, memory *held) error {
	v, err := accessSetFrom(ctx)
	if err != nil {
		return err
	}
	events, err := h.eventsOf(ctx, v, objects, memory)
	if err != nil {
		return err
	}
	for i, of := range events {
		if len(of) > 0 {
			if objects[i].JSON, err = withEvents(objects[i].JSON, of, memory); err != nil {
				return err
			}
		}
	}
	return nil
}

// eventsOf returns the events of each object, as far as the reader may see them.
func (h *Handler) eventsOf(ctx context.Context, v *rights.AccessSet, objects []store.Found, memory *held) ([][][]byte, error) {
	ids := make([]int64, 0, len(objects))
	for _, f := range objects {
		ids = append(ids, f.ID)
	}
	var events map[int64][][]byte
	err := memory.search(func() (err error) {
		events, err = h.store.Within(memory.bounds(false)).Events(ctx, ids)
		return err
	})
	if err != nil {
		return nil, err
	}
	all := make([][][]byte, len(objects))
	for i := range objects {
		all[i] = events[objects[i].ID]
		if !v.AllowsAll(objects[i].Cluster, objects[i].GroupResource()) {
			if all[i], err = readableEvents(v, objects[i].Cluster, all[i]); err != nil {
				return nil, err
			}
		}
	}
	return all, nil
}

// eventsResources are the resources of events. Both show the same objects.
var eventsResources = []schema.GroupResource{{Resource: "events"}, {Group: "events.k8s.io", Resource: "events"}}

// readableEvents returns those of the events of an object that a reader may read.
func readableEvents(v *rights.AccessSet, cluster string, events [][]byte) ([][]byte, error) {
	var some [][]byte
	for _, text := range events {
		var event metav1.PartialObjectMetadata
		if err := json.Unmarshal(text, &event); err != nil {
			return nil, err
		}
		if slices.ContainsFunc(eventsResources, func(r schema.GroupResource) bool { return v.Allows(cluster, r, event.Namespace, event.Name) }) {
			some = append(some, text)
		}
	}
	return some, nil
}

// withEvents returns an object with events in its annotation. It holds memory for what that adds.
func withEvents(object []byte, events [][]byte, memory *held) ([]byte, error) {
	size := 0
	for _, event := range events {
		size += len(event)
	}
	const copies = 3 // joined, as a string of JSON with more escapes, and in the object
	if err := memory.charge(int64(copies * size)); err != nil {
		return nil, err
	}
	list := slices.Concat([]byte("["), bytes.Join(events, []byte(",")), []byte("]"))
	value, err := jsontext.AppendQuote(nil, list)
	if err != nil {
		return nil, err
	}
	return objectjson.WithAnnotation(object, eventsAnnotation, value), nil
}
