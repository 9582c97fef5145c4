// Copyright The Tripod Authors.
// SPDX-License-Identifier: Apache-2.0

package store

import (
	"crypto/sha256"
	"fmt"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/tripod-k8s/tripod/services/search/store/streams"
)

func thing(name string, namespaced bool, shortNames ...string) streams.Kind {
	resource := schema.GroupVersionResource{Group: "example.com", Version: "v1", Resource: "things"}
	return streams.Kind{GroupVersionResource: resource, Name: name, Namespaced: namespaced, Details: streams.Details{ShortNames: shortNames}}
}

func TestEachClusterHasItsOwnKinds(t *testing.T) {
	each(t, func(t *testing.T, s *Store) {
		first, other := thing("Thing", true, "th"), thing("Thingy", false)
		kind := func(cluster string, inNamespace bool) streams.Kind {
			t.Helper()
			k, err := s.Kind(t.Context(), cluster, first.GroupVersionResource, inNamespace)
			require.NoError(t, err)
			return k
		}
		openStream(t, s, "a", first)
		openStream(t, s, "b", other)
		openStream(t, s, "b", other)
		assert.Equal(t, first, kind("a", false))
		assert.Equal(t, other, kind("b", false))
		assert.Equal(t, first, kind("", false), "of equally many, the first counts")
		assert.Equal(t, first, kind("", true))
		_, err := s.Kind(t.Context(), "b", first.GroupVersionResource, true)
		require.ErrorIs(t, err, streams.ErrUnknownKind)

		openStream(t, s, "c", other)
		assert.Equal(t, other, kind("", false), "most count")
		assert.Equal(t, first, kind("", true), "a path with a namespace is for the cluster that has it in namespaces")
		openStream(t, s, "d", thing("Thing", true, "x"))
		openStream(t, s, "e", thing("Thing", true, "x"))
		assert.Equal(t, thing("Thing", true, "x"), kind("", false), "names are those of most clusters with this kind")
		kinds, err := s.Kinds(t.Context(), "a", "b", "c")
		require.NoError(t, err)
		assert.Equal(t, []streams.Kind{other}, kinds)
		kinds, err = s.Kinds(t.Context())
		require.NoError(t, err)
		assert.Equal(t, []streams.Kind{thing("Thing", true, "x")}, kinds)

		stream := openStream(t, s, "a", first)
		require.NoError(t, s.Describe(t.Context(), stream, streams.Details{ShortNames: []string{"now"}}))
		assert.Equal(t, thing("Thing", true, "now"), kind("a", false))
		openStream(t, s, "a", first)
		require.ErrorIs(t, s.Describe(t.Context(), stream, streams.Details{}), streams.ErrFenced)
	})
}

// TestTheHubSaysWhatAKindIs holds against any number of clusters that agree about something else.
func TestTheHubSaysWhatAKindIs(t *testing.T) {
	each(t, func(t *testing.T, s *Store) {
		own, other := thing("Thing", true, "th"), thing("Thing", true, "po")
		for i := range 3 {
			openStream(t, s, fmt.Sprint("a", i), other)
			require.NoError(t, s.PutSchema(t.Context(), fmt.Sprint("a", i), "apis/example.com/v1", "1", []byte(`{"of":"others"}`)))
		}
		check := func(s *Store, want streams.Kind, document string) {
			t.Helper()
			kinds, err := s.Kinds(t.Context())
			require.NoError(t, err)
			assert.Equal(t, []streams.Kind{want}, kinds)
			kind, err := s.Kind(t.Context(), "", own.GroupVersionResource, true)
			require.NoError(t, err)
			assert.Equal(t, want, kind)
			digests, err := s.SchemaDigests(t.Context(), "")
			require.NoError(t, err)
			assert.Equal(t, map[string]string{"apis/example.com/v1": fmt.Sprintf("%x", sha256.Sum256([]byte(document)))}, digests)
		}
		check(s.WithHub("hub"), other, `{"of":"others"}`) // which the hub lacks
		openStream(t, s, "hub", own)
		require.NoError(t, s.PutSchema(t.Context(), "hub", "apis/example.com/v1", "1", []byte(`{"of":"hub"}`)))
		check(s.WithHub("hub"), own, `{"of":"hub"}`)
		check(s, other, `{"of":"others"}`)
		kinds, err := s.WithHub("hub").Kinds(t.Context(), "a0", "a1")
		require.NoError(t, err)
		assert.Equal(t, []streams.Kind{other}, kinds, "an answer that is not about the hub")
		openStream(t, s, "hub", thing("Thingy", false))
		kinds, err = s.WithHub("hub").Kinds(t.Context())
		require.NoError(t, err)
		assert.Equal(t, []streams.Kind{thing("Thingy", false)}, kinds, "its name and scope, too")
	})
}

func TestAStreamOfAnotherFormIsListedAgain(t *testing.T) {
	each(t, func(t *testing.T, s *Store) {
		write := func(kind streams.Kind) *streams.Stream {
			stream := openStream(t, s, "a", kind)
			o := Object{Namespace: "n", Name: "x", UID: "u", ResourceVersion: "1", JSON: []byte(`{"metadata":{"name":"x","namespace":"n"}}`)}
			require.NoError(t, s.Write(t.Context(), stream, Batch{Changes: []Change{{Object: o}}, ResourceVersion: "5"}))
			return stream
		}
		write(thing("Thing", true))
		assert.Equal(t, "5", openStream(t, s, "a", thing("Thing", true, "th")).ResourceVersion, "other names change no object")
		assert.Empty(t, openStream(t, s, "a", thing("Thing", false)).ResourceVersion, "another scope")
		before, err := s.Revision(t.Context())
		require.NoError(t, err)
		write(thing("Thing", false))
		after, err := s.Revision(t.Context())
		require.NoError(t, err)
		found, err := s.Get(t.Context(), "a", thing("", false).GroupVersionResource, "n", "x")
		require.NoError(t, err)
		assert.Greater(t, after, before)
		assert.Contains(t, string(found.JSON), "x")

		// A version of search before schema 10 opens a stream like this.
		_, err = s.db.Writer().ExecContext(t.Context(), "UPDATE streams SET epoch = epoch + 1, counted = counted + 1")
		require.NoError(t, err)
		assert.Empty(t, openStream(t, s, "a", thing("Thing", false)).ResourceVersion, "an older version of search has written")
	})
}

// TestAKindThatIsUsedIsNotForgotten has a stream of it open between the look for unused kinds and their removal.
func TestAKindThatIsUsedIsNotForgotten(t *testing.T) {
	each(t, func(t *testing.T, s *Store) {
		for i := range 3 { // so that revisions are higher than IDs
			require.NoError(t, s.Write(t.Context(), openStream(t, s, "east", pods), Batch{Changes: []Change{{Object: object("a", fmt.Sprint(i), "1")}}}))
		}
		stream := openStream(t, s, "east", thing("Thing", true))
		require.NoError(t, s.CloseStream(t.Context(), stream))
		require.NoError(t, s.Write(t.Context(), openStream(t, s, "east", pods), Batch{Changes: []Change{{Object: object("a", "x", "1")}, {Object: object("a", "y", "1")}}}))
		unused, err := s.UnusedKinds(t.Context())
		require.NoError(t, err)
		require.Equal(t, []int64{stream.KindID}, unused)
		require.NoError(t, s.ForgetKinds(t.Context(), unused, time.Now()), "the history goes back")
		unused, err = s.UnusedKinds(t.Context())
		require.NoError(t, err)
		require.Len(t, unused, 1)
		again := openStream(t, s, "east", thing("Thing", true))
		require.Equal(t, stream.KindID, again.KindID)
		require.NoError(t, s.ForgetKinds(t.Context(), unused, time.Now().Add(-time.Hour)))
		_, err = s.Kind(t.Context(), "east", thing("Thing", true).GroupVersionResource, true)
		require.NoError(t, err)
		require.NoError(t, s.CloseStream(t.Context(), again))
		require.NoError(t, s.ForgetKinds(t.Context(), unused, time.Now().Add(-time.Hour)))
		unused, err = s.UnusedKinds(t.Context())
		require.NoError(t, err)
		assert.Empty(t, unused)
		require.NotEqual(t, stream.KindID, openStream(t, s, "east", thing("Thing", true)).KindID)
	})
}
