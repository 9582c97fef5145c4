// Copyright The Tripod Authors.
// SPDX-License-Identifier: Apache-2.0

package store

import (
	"context"
	"encoding/json"
	"fmt"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/tripod-k8s/tripod/services/search/query"
	tables "github.com/tripod-k8s/tripod/services/search/store/schema"
	"github.com/tripod-k8s/tripod/services/search/store/streams"
)

func nameIn(t testing.TB, object []byte) string {
	t.Helper()
	var o struct {
		Metadata struct{ Namespace, Name string }
	}
	require.NoError(t, json.Unmarshal(object, &o))
	return o.Metadata.Namespace + "/" + o.Metadata.Name
}

// object returns an object of a resourceVersion.
func object(namespace, name, resourceVersion string) Object {
	return Object{
		Namespace: namespace, Name: name, UID: "uid-" + namespace + "-" + name, ResourceVersion: resourceVersion,
		JSON: fmt.Appendf(nil, `{"metadata": {"namespace": %q, "name": %q, "resourceVersion": %q}}`, namespace, name, resourceVersion),
	}
}

func TestABatchIsCommittedWithItsResourceVersion(t *testing.T) {
	each(t, func(t *testing.T, s *Store) {
		ctx := t.Context()
		stream := openStream(t, s, "one", pods)
		assert.Empty(t, stream.ResourceVersion)
		changes := []Change{{Object: object("a", "x", "1")}, {Object: object("a", "y", "2")}, {Object: object("a", "x", "3")}, {Object: object("b", "x", "4")},
			{Object: object("b", "x", "5"), Deleted: true}, {Object: object("c", "gone", "6"), Deleted: true}}
		require.NoError(t, s.Write(ctx, stream, Batch{Changes: changes, ResourceVersion: "6"}))

		found, page := names(t, s, query.Query{}, pods)
		assert.Equal(t, []string{"one/a/x", "one/a/y"}, found)
		assert.EqualValues(t, 4, page.Revision, "each object that is in the batch has a revision")
		assert.Equal(t, "6", openStream(t, s, "one", pods).ResourceVersion)
		got, err := s.Get(ctx, "one", pods.GroupVersionResource, "a", "x")
		require.NoError(t, err)
		assert.Contains(t, string(got.JSON), `"2"`, "the resourceVersion is the revision")
		assert.Equal(t, "Pod", got.Kind.Kind)
		_, err = s.Get(ctx, "two", pods.GroupVersionResource, "a", "x")
		assert.ErrorIs(t, err, ErrNotFound)
	})
}

func TestAWriterIsRefusedAfterAnotherHasOpenedTheStream(t *testing.T) {
	each(t, func(t *testing.T, s *Store) {
		ctx := t.Context()
		old := openStream(t, s, "one", pods)
		before := time.Now().Truncate(time.Millisecond)
		current := openStream(t, s, "one", pods)
		syncedAt, err := s.Alive(ctx, old)
		require.NoError(t, err)
		assert.False(t, syncedAt.Before(before), "who opens a stream is heard")
		batch := Batch{Changes: []Change{{Object: object("a", "x", "1")}}, ResourceVersion: "1"}
		assert.ErrorIs(t, s.Write(ctx, old, batch), streams.ErrFenced)
		assert.ErrorIs(t, s.Sweep(ctx, old, 1, "1"), streams.ErrFenced)
		assert.ErrorIs(t, s.CloseStream(ctx, old), streams.ErrFenced)
		found, page := names(t, s, query.Query{}, pods)
		assert.Empty(t, found)
		assert.Zero(t, page.Revision, "a batch that is refused takes no revision")
		assert.NoError(t, s.Write(ctx, current, batch))
	})
}

func TestAListRemovesWhatItDoesNotHave(t *testing.T) {
	each(t, func(t *testing.T, s *Store) {
		ctx := t.Context()
		stream, other := openStream(t, s, "one", pods), openStream(t, s, "two", pods)
		o := object("a", "y", "1")
		o.Labels, o.Owners = map[string]string{"app": "web"}, []string{"u", "v", "u"}
		for _, each := range []*streams.Stream{stream, other} {
			require.NoError(t, s.Write(ctx, each, Batch{Changes: []Change{{Object: object("a", "x", "1")}, {Object: o}}}))
		}
		assert.False(t, openStream(t, s, "one", pods).Listed)
		stream = openStream(t, s, "one", pods)
		require.NoError(t, s.Write(ctx, stream, Batch{Changes: []Change{{Object: object("a", "x", "1")}, {Object: object("a", "z", "9")}}, Listing: 7}))
		require.NoError(t, s.Sweep(ctx, stream, 7, "9"))

		found, _ := names(t, s, query.Query{}, pods)
		assert.Equal(t, []string{"one/a/x", "two/a/x", "two/a/y", "one/a/z"}, found)
		found, _ = names(t, s, query.Query{Owner: &query.Owner{UID: "v"}}, pods)
		assert.Equal(t, []string{"two/a/y"}, found)
		stream = openStream(t, s, "one", pods)
		assert.True(t, stream.Listed)
		assert.Equal(t, "9", stream.ResourceVersion)
	})
}

func TestClustersThatAreSilentAreNamed(t *testing.T) {
	each(t, func(t *testing.T, s *Store) {
		ctx := t.Context()
		for _, cluster := range []string{"new", "silent", "well"} {
			stream := openStream(t, s, cluster, pods)
			require.NoError(t, s.Write(ctx, stream, Batch{Changes: []Change{{Object: object("a", "x", "1")}}, Listing: 1}))
			if cluster != "new" {
				require.NoError(t, s.Sweep(ctx, stream, 1, "1"))
			}
		}
		_, err := s.db.Writer().Exec("UPDATE streams SET heard_at = 5000 WHERE cluster_id = (SELECT id FROM clusters WHERE name = 'silent')")
		require.NoError(t, err)
		states, err := s.States(ctx)
		require.NoError(t, err)
		require.Len(t, states, 3)
		assert.Equal(t, 1, states["new"].Incomplete)
		assert.Zero(t, states["well"].Incomplete)
		assert.Equal(t, 1, states["well"].Resources)
		assert.Equal(t, time.UnixMilli(5000), states["silent"].SyncedAt)
		assert.Equal(t, []schema.GroupResource{{Resource: "pods"}}, states["silent"].Stale)
		assert.Zero(t, states["new"].SyncedAt)
		assert.Empty(t, states["well"].Stale)
		_, page := names(t, s, query.Query{}, pods)
		assert.Equal(t, map[string]time.Time{"new": {}, "silent": time.UnixMilli(5000)}, page.SyncedAt)
		_, page = names(t, s, query.Query{Clusters: query.Choice{In: []string{"well"}}}, pods)
		assert.Empty(t, page.SyncedAt)
	})
}

func TestWhatIsNotSearchedAnyMoreIsRemoved(t *testing.T) {
	each(t, func(t *testing.T, s *Store) {
		ctx := t.Context()
		for _, cluster := range []string{"one", "two"} {
			for _, kind := range []streams.Kind{pods, nodes} {
				require.NoError(t, s.Write(ctx, openStream(t, s, cluster, kind), Batch{Changes: []Change{{Object: object("", "x", "1")}}}))
			}
		}
		require.NoError(t, s.RemoveOtherStreams(ctx, "one", []streams.Kind{nodes}, []string{"apps"}))
		found, _ := names(t, s, query.Query{}, pods, nodes)
		assert.Equal(t, []string{"two//x", "one//x", "two//x"}, found)
		writer := openStream(t, s, "two", pods)
		require.NoError(t, s.RemoveCluster(ctx, "two"))
		assert.ErrorIs(t, s.Write(ctx, writer, Batch{}), streams.ErrFenced)
		found, _ = names(t, s, query.Query{}, nodes)
		assert.Equal(t, []string{"one//x"}, found)
		_, err := s.List(ctx, []schema.GroupVersionResource{pods.GroupVersionResource}, &query.Query{}, nil)
		require.ErrorIs(t, err, streams.ErrUnknownKind)
		has, err := s.HasCluster(ctx, "two")
		require.NoError(t, err)
		assert.False(t, has)
		kinds, err := s.Kinds(ctx)
		require.NoError(t, err)
		assert.Equal(t, []streams.Kind{nodes}, kinds)
	})
}

func TestWritersAtTheSameTime(t *testing.T) {
	each(t, func(t *testing.T, s *Store) {
		const writers, batches = 6, 10
		var group sync.WaitGroup
		for w := range writers {
			group.Go(func() {
				stream, err := s.OpenStream(context.Background(), fmt.Sprint("cluster", w), pods)
				for b := range batches {
					if err == nil {
						err = s.Write(context.Background(), stream, Batch{Changes: []Change{{Object: object("a", fmt.Sprint(b), "1")}, {Object: object("a", "same", fmt.Sprint(b))}}})
					}
				}
				assert.NoError(t, err)
			})
		}
		group.Wait()
		found, page := names(t, s, query.Query{}, pods)
		assert.Len(t, found, writers*(batches+1))
		assert.EqualValues(t, writers*batches*2, page.Revision)
	})
}

func TestAnObjectThatTheDatabaseRefusesDiffersFromADatabaseThatIsAway(t *testing.T) {
	bad := object("a", strings.Repeat("x", 10_000_000), "1")
	nul := object("a", "x", "1")
	nul.JSON = []byte(`{"metadata": {"name": "x\u0000"}}`)
	databases.Each(t, func(t *testing.T, url string) {
		s := opened(t, url)
		stream := openStream(t, s, "one", pods)
		switch s.db.Name() {
		case "postgres":
			var name strings.Builder // it does not fit into an index, even compressed
			for i := range 2000 {
				fmt.Fprint(&name, i*i*7919%99991)
			}
			assert.True(t, IsRefused(s.Write(t.Context(), stream, Batch{Changes: []Change{{Object: object(name.String(), "x", "1")}}})))
		case "mysql":
			assert.True(t, IsRefused(s.Write(t.Context(), stream, Batch{Changes: []Change{{Object: bad}}})))
		}
		require.NoError(t, s.Write(t.Context(), stream, Batch{Changes: []Change{{Object: object("a", "good", "1")}}}))
		s.Close()
		err := s.Write(t.Context(), stream, Batch{Changes: []Change{{Object: nul}}})
		require.Error(t, err)
		assert.False(t, IsRefused(err))
	})
}

func TestMigration(t *testing.T) {
	databases.Each(t, func(t *testing.T, url string) {
		first := opened(t, url)
		stream := openStream(t, first, "one", pods)
		require.NoError(t, first.Write(t.Context(), stream, Batch{Changes: []Change{{Object: object("a", "x", "1")}}}))
		var group sync.WaitGroup
		for range 3 { // replicas that start together
			group.Go(func() {
				again, err := Open(url)
				assert.NoError(t, err)
				assert.NoError(t, again.Migrate(context.Background()))
				again.Close()
			})
		}
		group.Wait()
		found, _ := names(t, first, query.Query{}, pods)
		assert.Equal(t, []string{"one/a/x"}, found)

		migrations, err := tables.Migrations(first.db)
		require.NoError(t, err)
		_, err = first.db.Writer().Exec("INSERT INTO schema_version (version) VALUES (99)")
		require.NoError(t, err)
		assert.EqualError(t, first.Migrate(t.Context()), fmt.Sprintf("the database has schema 99, and this program knows schemas up to %d: ", len(migrations))+
			"use the version of tripod-search that wrote it, or a newer one")
	})
}
