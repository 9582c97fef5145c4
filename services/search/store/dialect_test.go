// Copyright The Tripod Authors.
// SPDX-License-Identifier: Apache-2.0

package store

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"golang.org/x/sync/errgroup"

	"github.com/tripod-k8s/tripod/services/search/store/database"
)

func TestFilesOfSQLiteArePrivate(t *testing.T) {
	path := filepath.Join(t.TempDir(), "search.db")
	s, err := Open("sqlite:" + path)
	require.NoError(t, err)
	defer s.Close()
	require.NoError(t, s.Migrate(t.Context()))
	files, err := filepath.Glob(path + "*")
	require.NoError(t, err)
	assert.Greater(t, len(files), 1)
	for _, file := range files {
		info, err := os.Stat(file)
		require.NoError(t, err)
		assert.Equal(t, os.FileMode(0o600), info.Mode().Perm(), file)
	}
}

func TestPlacesThatAreNoDatabase(t *testing.T) {
	for location, wrong := range map[string]string{
		"":                          "the database must be sqlite:FILE",
		"sqlite:":                   "sqlite: needs a file",
		"sqlite:/nowhere/search.db": "no such file or directory",
		"redis://host":              "the database must be sqlite:FILE",
	} {
		_, err := Open(location)
		assert.ErrorContains(t, err, wrong, location)
	}
}

func TestSearchesDoNotKeepWritersWaiting(t *testing.T) {
	each(t, func(t *testing.T, s *Store) {
		stream := openStream(t, s, "east", pods)
		began, end := make(chan struct{}), make(chan struct{})
		var searches errgroup.Group
		for range database.MaxReaders {
			searches.Go(func() error {
				return s.db.Reading(t.Context(), func(tx *database.Tx) error {
					_, err := database.Value[int64](t.Context(), tx, tx.SQL("SELECT last FROM revisions"))
					select {
					case began <- struct{}{}:
						<-end
					case <-end: // SQLite has fewer connections
					}
					return err
				})
			})
		}
		for range s.db.Reader().Stats().MaxOpenConnections {
			<-began
		}
		o := Object{Name: "a", JSON: []byte(`{"metadata":{"name":"a"}}`)}
		assert.NoError(t, s.Write(t.Context(), stream, Batch{Changes: []Change{{Object: o}}}))
		close(end)
		require.NoError(t, searches.Wait())
	})
}

func TestADatabaseEndsSearchesThatTakeTooLong(t *testing.T) {
	each(t, func(t *testing.T, s *Store) {
		slow := map[string][2]string{
			"postgres": {"SET LOCAL statement_timeout = 20", "SELECT 1 FROM pg_sleep(60)"},
			"mysql":    {"SET max_statement_time = 0.02", "SELECT 1 FROM information_schema.tables a, information_schema.columns b, information_schema.columns c, information_schema.columns d WHERE SLEEP(1) = 2"},
		}[s.db.Name()]
		if slow[0] == "" {
			return // the process itself does
		}
		err := s.db.Reading(t.Context(), func(tx *database.Tx) error {
			limit := tx.SQL("SELECT current_setting('statement_timeout')")
			if s.db.Name() == "mysql" {
				limit = tx.SQL("SELECT CONCAT(ROUND(@@max_statement_time), 's')")
			}
			is, err := database.Value[string](t.Context(), tx, limit)
			require.NoError(t, err)
			assert.Equal(t, database.StatementTimeout.String(), is)
			if _, err := tx.Exec(t.Context(), tx.SQL(slow[0])); err != nil {
				return err
			}
			_, err = database.Value[int64](t.Context(), tx, tx.SQL(slow[1]))
			return err
		})
		require.ErrorIs(t, err, database.ErrTimeout)
	})
}
