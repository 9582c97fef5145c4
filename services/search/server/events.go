// Copyright The Tripod Authors.
// SPDX-License-Identifier: Apache-2.0

package server

import (
	"bytes"
	"context"
	"encoding/json"

	"github.com/tripod-k8s/tripod/services/search/store"
)

// eventsAnnotation has the events of an object, as JSON. Clusterpedia has given it this name.
const eventsAnnotation = "shadow.clusterpedia.io/events"

// injectEvents adds the events that search has of each object to its annotations, the latest first.
func (h *Handler) injectEvents(ctx context.Context, objects []store.Found) error {
	ids := make([]int64, 0, len(objects))
	for _, f := range objects {
		ids = append(ids, f.ID)
	}
	events, err := h.store.Events(ctx, ids)
	if err != nil {
		return err
	}
	for i := range objects {
		if of := events[objects[i].ID]; len(of) > 0 {
			if objects[i].JSON, err = withEvents(objects[i].JSON, of); err != nil {
				return err
			}
		}
	}
	return nil
}

// withEvents returns an object with events in its annotation.
func withEvents(object []byte, events [][]byte) ([]byte, error) {
	var fields, metadata map[string]json.RawMessage
	if err := json.Unmarshal(object, &fields); err != nil {
		return nil, err
	}
	if err := json.Unmarshal(fields["metadata"], &metadata); err != nil {
		return nil, err
	}
	annotations := map[string]string{}
	if text, has := metadata["annotations"]; has {
		if err := json.Unmarshal(text, &annotations); err != nil {
			return nil, err
		}
	}
	annotations[eventsAnnotation] = "[" + string(bytes.Join(events, []byte(","))) + "]"
	var err error
	if metadata["annotations"], err = json.Marshal(annotations); err != nil {
		return nil, err
	}
	if fields["metadata"], err = json.Marshal(metadata); err != nil {
		return nil, err
	}
	return json.Marshal(fields)
}
