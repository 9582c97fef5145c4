// Copyright The Tripod Authors.
// SPDX-License-Identifier: Apache-2.0

package store

import (
	"fmt"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/tripod-k8s/tripod/services/search/query"
	"github.com/tripod-k8s/tripod/services/search/store/streams"
)

// eventOf returns an event about an object.
func eventOf(name, kind, namespace, involved, uid string, seenAt int64) Change {
	o := object(namespace, name, "1")
	o.Involved = &Involved{Kind: kind, Namespace: namespace, Name: involved, UID: uid, SeenAt: seenAt}
	return Change{Object: o}
}

// events returns the names of the events of each object that a query finds.
func events(t *testing.T, s *Store, kind streams.Kind) map[string][]string {
	t.Helper()
	named := map[int64]string{}
	var ids []int64
	_, err := s.List(t.Context(), []schema.GroupVersionResource{kind.GroupVersionResource}, &query.Query{}, func(f Found) error {
		ids = append(ids, f.ID)
		named[f.ID] = f.Cluster + "/" + nameIn(t, f.JSON)
		return nil
	})
	require.NoError(t, err)
	found, err := s.Events(t.Context(), ids)
	require.NoError(t, err)
	all := map[string][]string{}
	for id, texts := range found {
		for _, text := range texts {
			all[named[id]] = append(all[named[id]], nameIn(t, text))
		}
	}
	return all
}

func TestEventsAreFoundWithTheirObjects(t *testing.T) {
	each(t, func(t *testing.T, s *Store) {
		ctx := t.Context()
		for _, cluster := range []string{"one", "two"} {
			require.NoError(t, s.Write(ctx, openStream(t, s, cluster, pods), Batch{Changes: []Change{{Object: object("a", "x", "1")}, {Object: object("a", "y", "1")}}}))
			require.NoError(t, s.Write(ctx, openStream(t, s, cluster, nodes), Batch{Changes: []Change{{Object: object("", "n", "1")}}}))
		}
		stream := openStream(t, s, "one", streams.InvolvedEvents)
		gone := eventOf("late", "Pod", "a", "x", "uid-a-x", 30)
		gone.Deleted = true
		changes := []Change{
			eventOf("early", "Pod", "a", "x", "uid-a-x", 10), eventOf("late", "Pod", "a", "x", "uid-a-x", 20), eventOf("anonymous", "Pod", "a", "x", "", 15),
			eventOf("former", "Pod", "a", "x", "uid-of-the-pod-before", 5), eventOf("other", "ReplicaSet", "a", "x", "uid-a-x", 5), eventOf("of-node", "Node", "", "n", "n", 5),
		}
		require.NoError(t, s.Write(ctx, stream, Batch{Changes: changes, ResourceVersion: "7"}))
		require.NoError(t, s.Write(ctx, stream, Batch{Changes: []Change{gone, eventOf("early", "Pod", "a", "x", "uid-a-x", 40)}}))
		assert.Equal(t, map[string][]string{"one/a/x": {"a/early", "a/late", "a/anonymous"}}, events(t, s, pods), "the cluster has forgotten one, and repeated another")
		assert.Equal(t, map[string][]string{"one//n": {"/of-node"}}, events(t, s, nodes))
		assert.Equal(t, "7", openStream(t, s, "one", streams.InvolvedEvents).ResourceVersion)

		kinds, err := s.Kinds(ctx)
		require.NoError(t, err)
		assert.Len(t, kinds, 2, "discovery lists no such events")
		require.NoError(t, s.ForgetEvents(ctx, time.Unix(20, 0)))
		assert.Equal(t, map[string][]string{"one/a/x": {"a/early", "a/late"}}, events(t, s, pods))
		require.NoError(t, s.RemoveOtherStreams(ctx, "one", []streams.Kind{pods, nodes}, nil))
		assert.Empty(t, events(t, s, pods), "nobody wants events any more")
	})
}

func TestAnObjectHasItsLatestEvents(t *testing.T) {
	each(t, func(t *testing.T, s *Store) {
		require.NoError(t, s.Write(t.Context(), openStream(t, s, "one", pods), Batch{Changes: []Change{{Object: object("a", "x", "1")}}}))
		var changes []Change
		for i := range eventsOfObject + 5 {
			changes = append(changes, eventOf(fmt.Sprint("e", i), "Pod", "a", "x", "", int64(i)))
		}
		require.NoError(t, s.Write(t.Context(), openStream(t, s, "one", streams.InvolvedEvents), Batch{Changes: changes}))
		found := events(t, s, pods)["one/a/x"]
		require.Len(t, found, eventsOfObject)
		assert.Equal(t, fmt.Sprint("a/e", eventsOfObject+4), found[0])
		require.NoError(t, s.RemoveCluster(t.Context(), "one"))
	})
}

func TestAClusterKeepsItsLatestEvents(t *testing.T) {
	each(t, func(t *testing.T, s *Store) {
		ctx := t.Context()
		for _, cluster := range []string{"one", "two"} {
			require.NoError(t, s.Write(ctx, openStream(t, s, cluster, pods), Batch{Changes: []Change{{Object: object("a", "x", "1")}}}))
			var changes []Change
			for i := range 5 {
				changes = append(changes, eventOf(fmt.Sprint("e", i), "Pod", "a", "x", "", int64(i)))
			}
			require.NoError(t, s.Write(ctx, openStream(t, s, cluster, streams.InvolvedEvents), Batch{Changes: changes}))
		}
		require.NoError(t, s.TrimEvents(ctx, "one", 5))
		require.Len(t, events(t, s, pods)["one/a/x"], 5)
		require.NoError(t, s.TrimEvents(ctx, "one", 2))
		assert.Equal(t, []string{"a/e4", "a/e3"}, events(t, s, pods)["one/a/x"])
		assert.Len(t, events(t, s, pods)["two/a/x"], 5)
	})
}
