// Copyright The Tripod Authors.
// SPDX-License-Identifier: Apache-2.0

package revisions

import (
	"bytes"
	"errors"
	"fmt"
	"maps"
	"slices"

	"k8s.io/apimachinery/pkg/runtime"
)

// Replace makes objects, by their keys, all that the store has. Each that differs is a change of its own. It encodes all objects first: if
// one of them cannot be encoded, nothing changes. Nothing else may write meanwhile. Replace changes the objects.
func (s *Store) Replace(objects map[string]runtime.Object) error {
	data := map[string][]byte{}
	for key, object := range objects {
		stored, err := s.key(key, false)
		if err != nil {
			return err
		}
		if data[stored], err = s.encode(object); err != nil {
			return fmt.Errorf("encode %s: %w", key, err)
		}
	}
	now, _, err := s.at(0)
	if err != nil {
		return err
	}
	var errs []error
	now.Ascend(func(e *entry) bool {
		if _, stays := data[e.key]; !stays {
			_, err := s.commit(e.key, e, nil)
			errs = append(errs, err)
		}
		return true
	})
	for _, key := range slices.Sorted(maps.Keys(data)) {
		old, _ := now.Get(&entry{key: key})
		if old != nil && bytes.Equal(old.data, data[key]) {
			continue
		}
		_, err := s.commit(key, old, data[key])
		errs = append(errs, err)
	}
	return errors.Join(errs...)
}
