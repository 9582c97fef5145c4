// Copyright The Tripod Authors.
// SPDX-License-Identifier: Apache-2.0

package storages

import (
	"context"
	stdsql "database/sql"
	"fmt"
	"path/filepath"
	"strconv"
	"sync"
	"testing"
	"time"

	_ "github.com/jackc/pgx/v5/stdlib" // PostgreSQL
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	_ "modernc.org/sqlite" // SQLite

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/runtime/serializer"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/apiserver/pkg/storage"

	"github.com/tripod-k8s/tripod/apiservice/storages"
	"github.com/tripod-k8s/tripod/apiservice/storages/sql"
	"github.com/tripod-k8s/tripod/apiservice/storagetest"
	"github.com/tripod-k8s/tripod/services/search/store/storetest"
)

// eachDatabase runs a test with each kind of database, in which open makes connections.
func eachDatabase(t *testing.T, test func(t *testing.T, open func() *stdsql.DB)) {
	opener := func(t *testing.T, driver, location string) func() *stdsql.DB {
		return func() *stdsql.DB {
			db, err := stdsql.Open(driver, location)
			require.NoError(t, err)
			t.Cleanup(func() { db.Close() })
			return db
		}
	}
	t.Run("sqlite", func(t *testing.T) {
		file := "file:" + filepath.Join(t.TempDir(), "objects.db") + "?_pragma=busy_timeout(10000)&_pragma=journal_mode(WAL)&_txlock=immediate"
		test(t, opener(t, "sqlite", file))
	})
	t.Run("postgres", func(t *testing.T) {
		storetest.Need(t, "postgres")
		server, err := storetest.StartPostgres()
		require.NoError(t, err)
		t.Cleanup(server.Stop)
		test(t, opener(t, "pgx", server.URL("postgres")))
	})
}

func TestSQLKeepsTheRules(t *testing.T) {
	eachDatabase(t, func(t *testing.T, open func() *stdsql.DB) {
		db, opened := open(), 0
		storagetest.Run(t, storagetest.Options{
			Open: func(t *testing.T, r storages.Resource) storage.Interface {
				opened++
				store, stop, err := sql.Options{DB: db, Table: "t" + strconv.Itoa(opened)}.Open(r)
				require.NoError(t, err)
				t.Cleanup(stop)
				return store
			},
			Compact: compactCopy,
		})
	})
}

func compactCopy(_ context.Context, _ *testing.T, s storage.Interface, revision int64) {
	s.(interface{ Compact(int64) }).Compact(revision)
}

type thing = metav1.PartialObjectMetadata

func things() storages.Resource {
	gv, scheme := schema.GroupVersion{Group: "example.com", Version: "v1"}, runtime.NewScheme()
	scheme.AddKnownTypeWithName(gv.WithKind("Thing"), &thing{})
	scheme.AddKnownTypeWithName(gv.WithKind("ThingList"), &metav1.PartialObjectMetadataList{})
	return storages.Resource{
		GroupResource: schema.GroupResource{Group: gv.Group, Resource: "things"}, Prefix: "/things/",
		Codec: serializer.NewCodecFactory(scheme).LegacyCodec(gv),
		New:   func() runtime.Object { return &thing{} }, NewList: func() runtime.Object { return &metav1.PartialObjectMetadataList{} },
	}
}

// replica opens a storage with connections of its own. A replica that polls never observes others by requests only.
func replica(t *testing.T, db *stdsql.DB, poll time.Duration) (storage.Interface, func()) {
	t.Helper()
	s, stop, err := sql.Options{DB: db, PollInterval: poll}.Open(things())
	require.NoError(t, err)
	stop = sync.OnceFunc(stop)
	t.Cleanup(stop)
	return s, stop
}

const never = time.Hour

func create(t *testing.T, s storage.Interface, name string) *thing {
	t.Helper()
	out := &thing{}
	require.NoError(t, s.Create(t.Context(), "/things/"+name, &thing{ObjectMeta: metav1.ObjectMeta{Name: name}}, out, 0))
	return out
}

// count adds one to an annotation.
func count(ctx context.Context, s storage.Interface, name string) error {
	return s.GuaranteedUpdate(ctx, "/things/"+name, &thing{}, false, nil, storage.SimpleUpdate(func(o runtime.Object) (runtime.Object, error) {
		m := o.(*thing)
		n, _ := strconv.Atoi(m.Annotations["count"])
		m.Annotations = map[string]string{"count": strconv.Itoa(n + 1)}
		return m, nil
	}), nil)
}

func listOf(t *testing.T, s storage.Interface, version string) *metav1.PartialObjectMetadataList {
	t.Helper()
	list := &metav1.PartialObjectMetadataList{}
	require.NoError(t, s.GetList(t.Context(), "/things/", storage.ListOptions{
		Recursive: true, Predicate: storage.Everything, ResourceVersion: version,
	}, list))
	return list
}

func follow(t *testing.T, s storage.Interface, version string) watch.Interface {
	t.Helper()
	w, err := s.Watch(t.Context(), "/things/", storage.ListOptions{Recursive: true, Predicate: storage.Everything, ResourceVersion: version})
	require.NoError(t, err)
	t.Cleanup(w.Stop)
	return w
}

func next(t *testing.T, w watch.Interface) string {
	t.Helper()
	select {
	case event, ok := <-w.ResultChan():
		require.True(t, ok, "the watch has ended")
		if event.Type == watch.Error {
			return apierrors.FromObject(event.Object).Error()
		}
		m := event.Object.(*thing)
		return fmt.Sprintf("%s %s %s at %s", event.Type, m.Name, m.Annotations["count"], m.ResourceVersion)
	case <-time.After(time.Minute):
		require.FailNow(t, "no event")
	}
	return ""
}

func TestReplicasShareADatabase(t *testing.T) {
	eachDatabase(t, func(t *testing.T, open func() *stdsql.DB) {
		a, _ := replica(t, open(), never)
		b, _ := replica(t, open(), never)
		watched, _ := replica(t, open(), 10*time.Millisecond)
		begin := listOf(t, a, "").ResourceVersion
		w := follow(t, watched, begin)
		first := create(t, a, "x")
		assert.Len(t, listOf(t, b, "").Items, 1, "a read sees what another replica has written")
		assert.Error(t, b.Create(t.Context(), "/things/x", &thing{}, &thing{}, 0), "no object is created twice")

		const writers, each = 3, 15
		var wait sync.WaitGroup
		for _, s := range []storage.Interface{a, b} {
			for range writers {
				wait.Go(func() {
					for range each {
						assert.NoError(t, count(t.Context(), s, "x"))
					}
				})
			}
		}
		wait.Wait()
		last := listOf(t, b, "").Items[0]
		assert.Equal(t, strconv.Itoa(2*writers*each), last.Annotations["count"], "no update is lost")
		require.NoError(t, b.Delete(t.Context(), "/things/x", &thing{}, nil, storage.ValidateAllObjectFunc, nil, storage.DeleteOptions{}))

		// A client that was at one replica goes on at any.
		others := map[string]watch.Interface{"a": follow(t, a, begin), "b": follow(t, b, begin)}
		for range 2*writers*each + 2 {
			event := next(t, w)
			for name, other := range others {
				require.Equal(t, event, next(t, other), "replica %s has another history", name)
			}
		}
		assert.NotEqual(t, first.ResourceVersion, last.ResourceVersion)
	})
}

func TestHistoryOutlastsReplicas(t *testing.T) {
	eachDatabase(t, func(t *testing.T, open func() *stdsql.DB) {
		a, stop := replica(t, open(), never)
		first, second := create(t, a, "x"), create(t, a, "y")
		before := listOf(t, a, "")
		stop()
		b, _ := replica(t, open(), never)
		assert.Equal(t, before, listOf(t, b, ""), "no revision changes")
		assert.Equal(t, "ADDED y  at "+second.ResourceVersion, next(t, follow(t, b, first.ResourceVersion)))
	})
}

// A replica was paused for long.
func TestAReplicaThatIsBehindTheHistoryReadsAnew(t *testing.T) {
	eachDatabase(t, func(t *testing.T, open func() *stdsql.DB) {
		db := open()
		a, _ := replica(t, db, never)
		behind, _ := replica(t, open(), never)
		x := create(t, behind, "x")
		w := follow(t, behind, x.ResourceVersion)
		require.NoError(t, count(t.Context(), a, "x"))
		create(t, a, "y")
		create(t, a, "z")
		require.NoError(t, a.Delete(t.Context(), "/things/y", &thing{}, nil, storage.ValidateAllObjectFunc, nil, storage.DeleteOptions{}))
		list := listOf(t, a, "")
		revision, err := strconv.ParseInt(list.ResourceVersion, 10, 64)
		require.NoError(t, err)
		compactCopy(t.Context(), t, a, revision)
		var rows int
		require.NoError(t, db.QueryRow("SELECT COUNT(*) FROM tripod_changes WHERE name <> ''").Scan(&rows))
		assert.Equal(t, 2, rows, "the objects stay, and nothing else")
		assert.Equal(t, list.Items, listOf(t, behind, "").Items)
		assert.Contains(t, next(t, w), "too old")
		create(t, behind, "later")
		assert.Len(t, listOf(t, a, "").Items, 3)
	})
}

// restore has the database lose what came after an object: that named lost.
func restore(t *testing.T, db *stdsql.DB, saved *thing) {
	t.Helper()
	_, err := db.Exec("DELETE FROM tripod_changes WHERE name = '/things/lost'")
	require.NoError(t, err)
	_, err = db.Exec("UPDATE tripod_resources SET revision = $1", saved.ResourceVersion)
	require.NoError(t, err)
}

func TestAReplicaNoticesThatItsDatabaseWasRestored(t *testing.T) {
	eachDatabase(t, func(t *testing.T, open func() *stdsql.DB) {
		db := open()
		s, _ := replica(t, db, never)
		saved := create(t, s, "saved")
		lost := create(t, s, "lost")
		w := follow(t, s, lost.ResourceVersion)
		restore(t, db, saved)
		list := listOf(t, s, "")
		require.Len(t, list.Items, 1)
		assert.Equal(t, *saved, list.Items[0])
		assert.Contains(t, next(t, w), "too old", "a watch of what is lost")
		create(t, s, "later")
		assert.Len(t, listOf(t, s, "").Items, 2)
	})
}

func TestWithoutItsDatabaseAReplicaAnswersOldReadsOnly(t *testing.T) {
	eachDatabase(t, func(t *testing.T, open func() *stdsql.DB) {
		db := open()
		s, _ := replica(t, db, never)
		create(t, s, "x")
		require.NoError(t, s.ReadinessCheck())
		require.NoError(t, db.Close())
		err := s.Get(t.Context(), "/things/x", storage.GetOptions{}, &thing{})
		assert.True(t, apierrors.IsServiceUnavailable(err), "%v", err)
		err = count(t.Context(), s, "x")
		assert.True(t, apierrors.IsServiceUnavailable(err), "%v", err)
		assert.Error(t, s.ReadinessCheck())
		assert.Len(t, listOf(t, s, "0").Items, 1)
	})
}
