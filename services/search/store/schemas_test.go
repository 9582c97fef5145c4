// Copyright The Tripod Authors.
// SPDX-License-Identifier: Apache-2.0

package store

import (
	"context"
	"fmt"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/tripod-k8s/tripod/services/search/query"
	"github.com/tripod-k8s/tripod/services/search/store/database"
	"github.com/tripod-k8s/tripod/services/search/store/history"
	tables "github.com/tripod-k8s/tripod/services/search/store/schema"
	"github.com/tripod-k8s/tripod/services/search/store/streams"
)

func documents(t *testing.T, s *Store) int {
	t.Helper()
	n := 0
	require.NoError(t, s.db.Reading(t.Context(), func(tx *database.Tx) (err error) {
		n, err = database.Value[int](t.Context(), tx, tx.SQL("SELECT COUNT(*) FROM documents"))
		return err
	}))
	return n
}

func TestClustersShareTheDocumentsThatTheyHaveInCommon(t *testing.T) {
	each(t, func(t *testing.T, s *Store) {
		ctx := t.Context()
		for _, put := range [][4]string{
			{"one", "api/v1", "a", `{"x": 1}`}, {"two", "api/v1", "other", `{"x": 1}`}, {"two", "apis/apps/v1", "b", `{"x": 2}`}, {"one", "apis/apps/v1", "c", `{"x": 3}`},
		} {
			require.NoError(t, s.PutSchema(ctx, put[0], put[1], put[2], []byte(put[3])))
		}
		assert.Equal(t, 3, documents(t, s), "two have the same")
		versions, err := s.SchemaVersions(ctx, "two")
		require.NoError(t, err)
		assert.Equal(t, map[string]string{"api/v1": "other", "apis/apps/v1": "b"}, versions)

		read := func(cluster, path string) string {
			digests, err := s.SchemaDigests(ctx, cluster)
			require.NoError(t, err)
			compressed, err := s.Schema(ctx, digests[path])
			require.NoError(t, err)
			document, err := streams.Decompress(compressed)
			require.NoError(t, err)
			return string(document)
		}
		assert.Equal(t, `{"x": 2}`, read("two", "apis/apps/v1"))
		assert.Equal(t, `{"x": 3}`, read("", "apis/apps/v1"), "the cluster that came first counts")

		require.NoError(t, s.PutSchema(ctx, "one", "apis/apps/v1", "d", []byte(`{"x": 4}`)))
		assert.Equal(t, `{"x": 4}`, read("one", "apis/apps/v1"))
		assert.Equal(t, 3, documents(t, s), "nobody has the former one")
		require.NoError(t, s.RemoveSchemas(ctx, "two", map[string]bool{"api/v1": true}))
		assert.Equal(t, 2, documents(t, s))
		require.NoError(t, s.RemoveCluster(ctx, "one"))
		assert.Equal(t, 1, documents(t, s))
		assert.Equal(t, `{"x": 1}`, read("", "api/v1"))
		_, err = s.Schema(ctx, "no digest")
		assert.ErrorIs(t, err, streams.ErrNoDocument)
	})
}

func TestADatabaseOfAnEarlierSchemaIsUpgradedWithItsData(t *testing.T) {
	databases.Each(t, func(t *testing.T, url string) {
		ctx := context.Background()
		old, err := Open(url)
		require.NoError(t, err)
		defer old.Close()
		migrations, err := tables.Migrations(old.db)
		require.NoError(t, err)
		require.Greater(t, len(migrations), 1)
		require.NoError(t, tables.Apply(ctx, old.db, migrations[:1]))
		labels, value := "", ""
		if old.db.Name() == "postgres" {
			labels, value = ", labels", ", '{}'"
		}
		for _, text := range []string{
			"UPDATE revisions SET last = 1", "INSERT INTO clusters (name) VALUES ('one')",
			"INSERT INTO kinds (api_group, version, resource, kind, namespaced) VALUES ('', 'v1', 'pods', 'Pod', true)",
			"INSERT INTO streams (cluster_id, kind_id, epoch, resource_version, listed, heard_at, opened_at, details)" +
				" SELECT c.id, k.id, 1, '1', true, 0, 0, '{}' FROM clusters c, kinds k",
			"INSERT INTO objects (id, kind_id, cluster_id, namespace, name, uid, resource_version, created_at, revision, listing, object" + labels + ")" +
				" SELECT 1, kind_id, cluster_id, 'a', 'x', 'u', '1', 0, 1, 0, '{\"metadata\": {\"namespace\": \"a\", \"name\": \"x\"}}'" + value + " FROM streams",
		} {
			_, err := old.db.Writer().Exec(text)
			require.NoError(t, err)
		}

		upgraded := opened(t, url)
		found, _ := names(t, upgraded, query.Query{Words: []string{"x"}}, pods)
		assert.Equal(t, []string{"one/a/x"}, found)
		found, page := names(t, upgraded, query.Query{}, pods)
		assert.Equal(t, []string{"one/a/x"}, found)
		assert.EqualValues(t, 1, page.Revision)
		assertCounts(t, upgraded, 1)
		require.NoError(t, upgraded.PutSchema(ctx, "one", "api/v1", "a", []byte("{}")))
		_, err = upgraded.Transitions(ctx, 0, kindIDsOf(t, upgraded, pods), nil)
		assert.ErrorIs(t, err, history.ErrPruned, "there is no history of what was before")
		stream := openStream(t, upgraded, "one", pods)
		assert.Empty(t, stream.ResourceVersion, "the next writer lists, so that all objects get their new resourceVersions")
		assertCounts(t, upgraded, 1)
		require.NoError(t, old.Write(ctx, stream, Batch{Changes: []Change{{Object: object("a", "y", "2")}}, ResourceVersion: "2"}))
		assertCounts(t, upgraded, 2)
		assert.ErrorContains(t, tables.Apply(ctx, old.db, migrations[:1]), fmt.Sprintf("the database has schema %d, and this program knows schemas up to 1", len(migrations)))
	})
}
