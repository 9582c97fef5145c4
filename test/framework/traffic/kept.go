// Copyright The Tripod Authors.
// SPDX-License-Identifier: Apache-2.0

package traffic

import (
	"context"
	"fmt"
	"net/http"
	"slices"
)

// Lost describes the acknowledged writes of workers that the cluster has lost. The workers must have ended. Others may write to the same
// collections, but not to the same objects.
func Lost(ctx context.Context, workers []*Worker) ([]string, error) {
	stored, lost := map[string]map[string]string{}, []string(nil)
	for _, w := range workers {
		collection := w.resource.Collection(w.namespace)
		if stored[collection] == nil {
			values, err := w.client.values(ctx, collection)
			if err != nil {
				return nil, err
			}
			stored[collection] = values
		}
		wrote := writesOf{}
		for _, write := range w.writes {
			wrote[write.name] = append(wrote[write.name], write)
		}
		for name, writes := range wrote {
			if value, there := stored[collection][name]; !couldLeave(writes, value, there) {
				last := writes[len(writes)-1]
				lost = append(lost, fmt.Sprintf("%s %s: stored is %q (%t) after %s %q@%s", collection, name, value, there, last.event, last.value, last.version))
			}
		}
	}
	return lost, nil
}

// values returns the values of a collection, by the names of the objects.
func (c *Client) values(ctx context.Context, collection string) (map[string]string, error) {
	a, err := c.Send(ctx, http.MethodGet, collection, nil)
	if err == nil {
		err = a.Expect(http.StatusOK)
	}
	if err != nil {
		return nil, fmt.Errorf("cannot read the objects in %s: %w", collection, err)
	}
	list, err := Decode(a.Body)
	if err != nil {
		return nil, err
	}
	values := map[string]string{}
	for _, o := range list.Items {
		values[o.Metadata.Name] = o.Data.Value
	}
	return values, nil
}

// couldLeave returns whether writes, in this order, can leave an object with this value, or no object. Writes at the end without an answer may not
// have happened.
func couldLeave(writes []write, value string, there bool) bool {
	for _, w := range slices.Backward(writes) {
		if deleted := w.event == "DELETED"; deleted != there && (deleted || w.value == value) {
			return true
		}
		if !w.maybe {
			return false
		}
	}
	return !there // if no write happened
}
