// Copyright The Tripod Authors.
// SPDX-License-Identifier: Apache-2.0

package store

import (
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	rbacv1 "k8s.io/api/rbac/v1"

	"github.com/tripod-k8s/tripod/services/search/store/access"
	"github.com/tripod-k8s/tripod/services/search/store/database"
	"github.com/tripod-k8s/tripod/services/search/store/history"
	"github.com/tripod-k8s/tripod/services/search/store/streams"
)

// TestRightsStayClosedUntilAListEnds holds for what a writer of RBAC objects cannot read, and for the next writer.
func TestRightsStayClosedUntilAListEnds(t *testing.T) {
	each(t, func(t *testing.T, s *Store) {
		ctx := t.Context()
		roles := streams.Kind{GroupVersionResource: rbacv1.SchemeGroupVersion.WithResource("roles"), Name: "Role", Namespaced: true}
		require.NoError(t, s.SetRights(ctx, "east", "{}"))
		closed := func() (why string) {
			t.Helper()
			require.NoError(t, s.ReadRights(ctx, "east", func(r *access.RightsReading) error {
				why = r.Closed
				return nil
			}))
			return why
		}
		generation := func() int64 {
			t.Helper()
			index, err := s.RightsIndex(ctx)
			require.NoError(t, err)
			return index.Generations["east"]
		}
		role := Change{Object: Object{Namespace: "a", Name: "x", ResourceVersion: "1", JSON: []byte(`{"metadata":{"namespace":"a","name":"x"}}`)}}
		writer := openStream(t, s, "east", roles)
		require.NoError(t, s.Sweep(ctx, writer, 1, "1"))
		for name, end := range map[string]func(stream *streams.Stream) error{
			"a complete list":        func(stream *streams.Stream) error { return s.Sweep(ctx, stream, 7, "7") },
			"a list without objects": func(stream *streams.Stream) error { return s.RemoveUnlisted(ctx, stream, 7) },
		} {
			before := generation()
			require.NoError(t, s.CloseRights(ctx, writer, "too much\x00\xff"), name)
			require.NoError(t, s.CloseRights(ctx, writer, "again"), name)
			assert.Equal(t, "roles: too much", closed(), name)
			assert.Greater(t, generation(), before, name)
			role.ResourceVersion += "1"
			require.NoError(t, s.Write(ctx, writer, Batch{Changes: []Change{role}, ResourceVersion: "2"}), name)
			assert.NotEmpty(t, closed(), "a change says nothing about the others")

			require.NoError(t, s.CloseRights(ctx, writer, "still"), name)
			next := openStream(t, s, "east", roles)
			require.ErrorIs(t, s.CloseRights(ctx, writer, "late"), streams.ErrFenced)
			assert.Empty(t, next.ResourceVersion, "the next writer lists")
			assert.NotEmpty(t, closed(), name)
			before = generation()
			require.NoError(t, end(next), name)
			assert.Empty(t, closed(), name)
			assert.Greater(t, generation(), before, name)
			writer = next
		}
	})
}

// TestThePastIsClosedWhileNamespacesAreNotRead has a writer of Namespaces miss some of them: the name of one may belong to another owner now.
func TestThePastIsClosedWhileNamespacesAreNotRead(t *testing.T) {
	each(t, func(t *testing.T, s *Store) {
		ctx := t.Context()
		kind := streams.Kind{GroupVersionResource: streams.NamespacesResource, Name: "Namespace"}
		require.NoError(t, s.SetRights(ctx, "east", "{}"))
		writer := openStream(t, s, "east", kind)
		require.NoError(t, s.Sweep(ctx, writer, 1, "1"))
		known := func() bool {
			t.Helper()
			var in *history.Incarnations
			require.NoError(t, s.db.Reading(ctx, func(t *database.Tx) (err error) {
				in, err = history.IncarnationsAt(ctx, t, 1<<40)
				return err
			}))
			return in.KnowsNamespaces("east")
		}
		assert.True(t, known())
		require.NoError(t, s.CloseRights(ctx, writer, "too much"))
		assert.False(t, known())
		unreadable, err := s.UnreadableRights(ctx)
		require.NoError(t, err)
		assert.Empty(t, unreadable, "no RBAC is missing")
		require.NoError(t, s.Sweep(ctx, writer, 2, "2"))
		assert.True(t, known())
	})
}
