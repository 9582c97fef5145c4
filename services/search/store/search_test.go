// Copyright The Tripod Authors.
// SPDX-License-Identifier: Apache-2.0

package store

import (
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/tripod-k8s/tripod/services/search/query"
)

func TestAPartOfANameIsNoPattern(t *testing.T) {
	each(t, func(t *testing.T, s *Store) {
		batch := Batch{}
		for _, name := range []string{"a%b", "a_b", `a\\b`, "acb"} {
			batch.Changes = append(batch.Changes, Change{Object: object("", name, "1")})
		}
		require.NoError(t, s.Write(t.Context(), openStream(t, s, "one", nodes), batch))
		for part, want := range map[string][]string{"%": {"a%b"}, "_": {"a_b"}, `\\`: {`a\\b`}, "cb": {"acb"}, "a%": {"a%b"}} {
			found, _ := names(t, s, query.Query{Fuzzy: []string{part}}, nodes)
			assert.Len(t, found, len(want), part)
			assert.Equal(t, "one//"+want[0], found[0])
		}
	})
}

func TestPostgreSQLHasIndexesForFieldsAndPartsOfNames(t *testing.T) {
	s := opened(t, databases.New(t, "postgres"))
	crowd(t, s)
	require.NoError(t, s.reading(t.Context(), func(tx *transaction) error {
		kinds, err := tx.kindIDs(t.Context(), []schema.GroupVersionResource{pods.GroupVersionResource})
		require.NoError(t, err)
		for _, setting := range []string{"enable_seqscan = off", "cpu_operator_cost = 1"} { // the table is small, and so are its objects
			_, err = tx.tx.ExecContext(t.Context(), "SET LOCAL "+setting)
			require.NoError(t, err)
		}
		for _, text := range []string{"status.phase=Failed", "spec.list[].image in (x, y)"} {
			plan := planOf(t, tx, (&search{dialect: postgres, q: &query.Query{Fields: selected(t, text)}, kinds: kinds}).objects())
			assert.Contains(t, plan, "objects_fields", text)
		}
		indexes, err := value[int](t.Context(), tx, postgres.sql("SELECT COUNT(*) FROM pg_indexes WHERE indexname = 'objects_name_part'"))
		assert.Equal(t, 1, indexes, "the extension can be installed here")
		return err
	}))
}

func selected(t *testing.T, text string) []query.Field {
	t.Helper()
	fields, err := query.ParseFields(text)
	require.NoError(t, err)
	return fields
}
