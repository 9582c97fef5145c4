// Copyright The Tripod Authors.
// SPDX-License-Identifier: Apache-2.0

package storages

import (
	"context"
	stdsql "database/sql"
	"errors"
	"net/url"
	"strconv"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apiserver/pkg/storage"

	"github.com/tripod-k8s/tripod/apiservice/storages/sql"
	"github.com/tripod-k8s/tripod/services/search/store/storetest"
)

// Another replica writes before this one looks, so the counter alone shows no loss.
func TestARestoreThatOthersWriteAfterIsNoticed(t *testing.T) {
	eachDatabase(t, func(t *testing.T, open func() *stdsql.DB) {
		db := open()
		s, _ := replica(t, db, never)
		saved := create(t, s, "saved")
		lost := create(t, s, "lost")
		w := follow(t, s, lost.ResourceVersion)
		restore(t, db, saved)
		other, _ := replica(t, open(), never)
		assert.NotEqual(t, lost.ResourceVersion, create(t, other, "instead").ResourceVersion)
		assert.Equal(t, listOf(t, other, ""), listOf(t, s, ""))
		assert.Contains(t, next(t, w), "too old", "a watch of what is lost")
		assert.Contains(t, next(t, follow(t, other, lost.ResourceVersion)), "too old", "at a replica that never had it")
	})
}

// hooked calls a function when it decodes an object for the nth time.
type hooked struct {
	runtime.Codec
	mu   sync.Mutex
	n    int
	hook func()
}

func (h *hooked) Decode(data []byte, gvk *schema.GroupVersionKind, into runtime.Object) (runtime.Object, *schema.GroupVersionKind, error) {
	h.mu.Lock()
	h.n--
	due := h.n == 0
	h.mu.Unlock()
	if due {
		h.hook()
	}
	return h.Codec.Decode(data, gvk, into)
}

func TestACompactionWhileAReplicaCatchesUpLosesNoDeletion(t *testing.T) {
	eachDatabase(t, func(t *testing.T, open func() *stdsql.DB) {
		a, _ := replica(t, open(), never)
		create(t, a, "x")
		r := things()
		codec := &hooked{Codec: r.Codec}
		r.Codec = codec
		behind, stop, err := sql.Options{DB: open(), PollInterval: never}.Open(r)
		require.NoError(t, err)
		t.Cleanup(stop)
		create(t, a, "y")
		for range 520 { // more than a replica reads at once
			require.NoError(t, count(t.Context(), a, "y"))
		}
		require.NoError(t, a.Delete(t.Context(), "/things/x", &thing{}, nil, storage.ValidateAllObjectFunc, nil, storage.DeleteOptions{}))
		create(t, a, "z")
		list := listOf(t, a, "")
		codec.mu.Lock()
		codec.n, codec.hook = 100, func() {
			revision, err := strconv.ParseInt(list.ResourceVersion, 10, 64)
			assert.NoError(t, err)
			compactCopy(context.Background(), t, a, revision)
		}
		codec.mu.Unlock()
		assert.Equal(t, list.Items, listOf(t, behind, "").Items)
	})
}

func TestADeletionOfWhatTheDatabaseHasNotEnds(t *testing.T) {
	eachDatabase(t, func(t *testing.T, open func() *stdsql.DB) {
		db := open()
		s, _ := replica(t, db, never)
		create(t, s, "x")
		create(t, s, "y")
		_, err := db.Exec("DELETE FROM tripod_changes WHERE name = '/things/x'")
		require.NoError(t, err)
		ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
		defer cancel()
		err = s.Delete(ctx, "/things/x", &thing{}, nil, storage.ValidateAllObjectFunc, nil, storage.DeleteOptions{})
		assert.True(t, storage.IsNotFound(err), "%v", err)
		assert.Len(t, listOf(t, s, "").Items, 1)
	})
}

func TestOldChangesAreRemoved(t *testing.T) {
	eachDatabase(t, func(t *testing.T, open func() *stdsql.DB) {
		db := open()
		s, stop, err := sql.Options{DB: db, PollInterval: 10 * time.Millisecond, HistoryChanges: 20}.Open(things())
		require.NoError(t, err)
		t.Cleanup(stop)
		create(t, s, "stays")
		create(t, s, "x")
		for range 60 {
			require.NoError(t, count(t.Context(), s, "x"))
		}
		rows := func() (n int) {
			require.NoError(t, db.QueryRow("SELECT COUNT(*) FROM tripod_changes").Scan(&n))
			return n
		}
		require.Eventually(t, func() bool { return rows() <= 20+2+2 }, time.Minute, 10*time.Millisecond)
		assert.GreaterOrEqual(t, rows(), 20, "as many changes as are to be kept")
		list := listOf(t, s, "")
		other, _ := replica(t, open(), never)
		assert.Equal(t, list, listOf(t, other, ""))
	})
}

// The database hangs.
func TestAWriterWaitsNoLongerThanItsClient(t *testing.T) {
	eachDatabase(t, func(t *testing.T, open func() *stdsql.DB) {
		s, _ := replica(t, open(), never)
		other, err := open().Begin()
		require.NoError(t, err)
		_, err = other.Exec("UPDATE tripod_resources SET revision = revision")
		require.NoError(t, err)
		const writers = 3
		ended := make(chan error, writers)
		ctx, cancel := context.WithTimeout(t.Context(), 100*time.Millisecond)
		defer cancel()
		for i := range writers {
			go func() { ended <- s.Create(ctx, "/things/"+strconv.Itoa(i), &thing{}, &thing{}, 0) }()
		}
		var late []error
		end := func() {
			if err := <-ended; errors.Is(err, context.DeadlineExceeded) {
				late = append(late, err)
			}
		}
		for range writers - 1 {
			end()
		}
		require.NoError(t, other.Rollback())
		end()
		assert.GreaterOrEqual(t, len(late), writers-1, "one is in the database, which says why that one ended: %v", late)
		assert.NoError(t, s.ReadinessCheck(), "the time of a client says nothing of the database")
	})
}

func TestTablesThatExistNeedNoRightToCreateThem(t *testing.T) {
	storetest.Need(t, "postgres")
	server, err := storetest.StartPostgres()
	require.NoError(t, err)
	t.Cleanup(server.Stop)
	open := func(location string) *stdsql.DB {
		db, err := stdsql.Open("pgx", location)
		require.NoError(t, err)
		t.Cleanup(func() { db.Close() })
		return db
	}
	owner := open(server.URL("postgres"))
	create(t, func() storage.Interface { s, _ := replica(t, owner, never); return s }(), "x")
	for _, statement := range []string{
		"REVOKE CREATE ON SCHEMA public FROM PUBLIC", "CREATE ROLE notes LOGIN PASSWORD 'notes'",
		"GRANT SELECT, INSERT, UPDATE, DELETE ON tripod_resources, tripod_changes TO notes",
	} {
		_, err := owner.Exec(statement)
		require.NoError(t, err)
	}
	location, err := url.Parse(server.URL("postgres"))
	require.NoError(t, err)
	location.User = url.UserPassword("notes", "notes")
	s, _ := replica(t, open(location.String()), never)
	create(t, s, "y")
	assert.Len(t, listOf(t, s, "").Items, 2)
}
