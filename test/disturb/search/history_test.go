// Copyright The Tripod Authors.
// SPDX-License-Identifier: Apache-2.0

package search

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"maps"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/tripod-k8s/tripod/services/search/query"
	"github.com/tripod-k8s/tripod/services/search/store"
	"github.com/tripod-k8s/tripod/services/search/store/history"
)

// replayHistory holds that the history leads from each state that it goes back to, to the state now.
func (s *scene) replayHistory(t *testing.T) {
	t.Helper()
	require.NoError(t, s.reading(t.Context(), func(tx *sql.Tx) error { return replayRows(t.Context(), tx) }))
	now, err := s.show(t.Context())
	require.NoError(t, err)
	replayed := 0
	for _, then := range s.past {
		switch err := s.replay(t.Context(), then, now); {
		case errors.Is(err, history.ErrPruned):
		default:
			require.NoError(t, err, "from revision %d of %s", then.revision, then.taken)
			replayed++
		}
	}
	t.Logf("the history leads from %d of %d earlier states to that of now, at revision %d", replayed, len(s.past), now.revision)
}

// remember keeps the state now for later replays.
func (s *scene) remember(t *testing.T) {
	t.Helper()
	now, err := s.show(t.Context())
	require.NoError(t, err)
	s.past = append(s.past, now)
}

// show returns what search shows.
func (s *scene) show(ctx context.Context) (snapshot, error) {
	now := snapshot{taken: time.Now(), objects: seen{}}
	page, err := s.store.List(ctx, nil, &query.Query{}, func(f store.Found) error { return now.objects.set(f.Cluster, f.JSON) })
	now.revision = page.Revision
	return now, err
}

// set notes an object.
func (s seen) set(cluster string, text []byte) error {
	o := &unstructured.Unstructured{}
	if err := o.UnmarshalJSON(text); err != nil {
		return err
	}
	content, err := canonical(o.Object)
	s[keyIn(cluster, o)] = content
	return err
}

func keyIn(cluster string, o *unstructured.Unstructured) string {
	return fmt.Sprint(cluster, " ", o.GroupVersionKind(), " ", o.GetNamespace(), "/", o.GetName())
}

// replay returns an error if the transitions after a state do not lead to another one.
func (s *scene) replay(ctx context.Context, then, now snapshot) error {
	kinds, err := s.store.KindIDs(ctx, nil)
	if err != nil {
		return err
	}
	state := maps.Clone(then.objects)
	for at := then.revision; at < now.revision; {
		h, err := s.store.Transitions(ctx, at, kinds, nil)
		if err != nil {
			return err
		}
		for _, one := range h.Transitions {
			if one.Revision > now.revision {
				break
			}
			if err := state.apply(one); err != nil {
				return fmt.Errorf("revision %d: %w", one.Revision, err)
			}
		}
		at = h.UpTo
	}
	if !maps.Equal(state, now.objects) {
		for key, content := range now.objects {
			if state[key] != content {
				return fmt.Errorf("the history leads to another state: of %s, it has %s, and search shows %s", key, state[key], content)
			}
		}
		return fmt.Errorf("the history leads to %d objects, and search shows %d", len(state), len(now.objects))
	}
	return nil
}

// apply changes a state by a transition, which must begin there.
func (s seen) apply(one *history.Transition) error {
	before := seen{}
	if one.Before != nil {
		if err := before.set(one.Before.Cluster, one.Before.JSON); err != nil {
			return err
		}
	}
	for key, content := range before {
		if s[key] != content {
			return fmt.Errorf("%s was %s, and the history says %s", key, s[key], content)
		}
		delete(s, key)
	}
	if one.After == nil {
		return nil
	}
	after := seen{}
	if err := after.set(one.After.Cluster, one.After.JSON); err != nil {
		return err
	}
	for key, content := range after {
		if _, exists := s[key]; exists {
			return fmt.Errorf("%s exists, and the history says that it is new", key)
		}
		s[key] = content
	}
	return nil
}

// replayRows holds that each change goes on where the last one of its object was, up to the objects that there are, and that exactly the states are kept that
// changes have ended.
func replayRows(ctx context.Context, tx *sql.Tx) error {
	pruned, err1 := value[int64](ctx, tx, "SELECT pruned FROM history")
	last, err2 := value[int64](ctx, tx, "SELECT last FROM revisions")
	if err := errors.Join(err1, err2); err != nil {
		return err
	}
	// state has the revision of each object that was changed. ended are the states that changes have ended.
	state, ended := map[int64]int64{}, map[int64]bool{}
	err := each(ctx, tx, "SELECT revision, previous, deleted, object_id FROM changes ORDER BY revision", func(scan func(...any) error) error {
		var revision, previous, id int64
		var deleted bool
		if err := scan(&revision, &previous, &deleted, &id); err != nil {
			return err
		}
		was, changed := state[id]
		if revision <= pruned || revision > last || changed && was != previous || !changed && previous > pruned {
			return fmt.Errorf("the change %d of object %d follows %d, and the object was at %d (pruned %d, last %d)", revision, id, previous, was, pruned, last)
		}
		if previous != 0 {
			ended[previous] = true
		}
		if state[id] = revision; deleted {
			state[id] = 0
		}
		return nil
	})
	if err != nil {
		return err
	}
	err = each(ctx, tx, "SELECT id, revision FROM objects", func(scan func(...any) error) error {
		var id, revision int64
		if err := scan(&id, &revision); err != nil {
			return err
		}
		was, changed := state[id]
		if changed && was != revision || !changed && revision > pruned {
			return fmt.Errorf("object %d is at %d, and its last change was %d", id, revision, was)
		}
		delete(state, id)
		return nil
	})
	if err != nil {
		return err
	}
	for id, revision := range state {
		if revision != 0 {
			return fmt.Errorf("object %d is gone, and its last change %d says otherwise", id, revision)
		}
	}
	err = each(ctx, tx, "SELECT revision FROM versions", func(scan func(...any) error) error {
		var revision int64
		if err := scan(&revision); err != nil {
			return err
		}
		if !ended[revision] {
			return fmt.Errorf("the state %d is kept, and no change has ended it", revision)
		}
		delete(ended, revision)
		return nil
	})
	if err == nil && len(ended) > 0 {
		err = fmt.Errorf("%d states are missing that changes have ended", len(ended))
	}
	return err
}
