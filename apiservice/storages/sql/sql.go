// Copyright The Tripod Authors.
// SPDX-License-Identifier: Apache-2.0

// Package sql keeps objects in a database with database/sql: PostgreSQL, or SQLite from version 3.35. The author of a service imports the
// driver, so a service without this storage has none.
//
// A table has the changes of all resources. The latest change of each object is kept, and of all objects the latest changes, so that
// watches go on where they ended, also at another replica. Any number of replicas share a database: a counter of the resource orders their
// writes. Each replica has a copy of all objects in memory. Before it reads, unless the client takes old objects, it asks the database
// whether others have written, and it looks for the changes of others in an interval, for watches.
package sql

import (
	"cmp"
	"context"
	"database/sql"
	"errors"
	"fmt"
	"regexp"
	"sync/atomic"
	"time"

	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/apiserver/pkg/storage"

	"github.com/tripod-k8s/tripod/apiservice/internal/revisions"
	"github.com/tripod-k8s/tripod/apiservice/storages"
)

// Options say where objects are, and bound them. Zero values take the defaults.
type Options struct {
	// DB is the database. The service opens and closes it, and bounds its connections (SetMaxOpenConns, SetMaxIdleConns), because each request
	// may take one. With SQLite, it has one connection, or a busy timeout.
	DB *sql.DB
	// Table begins the names of the tables: tripod by default. Services that share a database have different ones. The storage creates
	// tables that do not exist.
	Table string
	// PollInterval is how often a replica looks for changes of others: 500 ms by default.
	PollInterval time.Duration
	// HistoryChanges is how many changes of a resource the database and the memory keep, besides the objects: 10,000 by default.
	HistoryChanges int
	// MaxBytes and HistoryBytes bound the memory, as in apiservice/storages/memory.
	MaxBytes     int64
	HistoryBytes int64
}

const (
	defaultTable          = "tripod"
	defaultPollInterval   = 500 * time.Millisecond
	defaultHistoryChanges = 10_000
)

var tableName = regexp.MustCompile(`^[a-z][a-z0-9_]{0,40}$`)

// Open keeps the objects of a resource in the database. It is a [storages.Open].
func (o Options) Open(r storages.Resource) (storage.Interface, func(), error) {
	o.Table, o.PollInterval = cmp.Or(o.Table, defaultTable), cmp.Or(o.PollInterval, defaultPollInterval)
	o.HistoryChanges = cmp.Or(o.HistoryChanges, defaultHistoryChanges)
	if o.DB == nil || !tableName.MatchString(o.Table) || o.PollInterval < 0 || o.HistoryChanges < 0 {
		return nil, nil, fmt.Errorf("storage of %s: DB is required, Table has small letters, digits and _ only, and limits are positive",
			r.GroupResource)
	}
	kept, err := revisions.New(r, revisions.Options{MaxBytes: o.MaxBytes, HistoryChanges: o.HistoryChanges, HistoryBytes: o.HistoryBytes})
	if err != nil {
		return nil, nil, err
	}
	s := &store{
		Store: kept, resource: r.GroupResource, options: o,
		log: &changeLog{db: o.DB, table: o.Table, resource: r.GroupResource.String()},
	}
	kept.WriteTo(s.write, waitTimeout)
	ctx, cancel := context.WithTimeout(context.Background(), waitTimeout)
	defer cancel()
	if err := errors.Join(s.log.create(ctx), s.begin(ctx)); err != nil {
		kept.Close()
		return nil, nil, fmt.Errorf("storage of %s: %w", r.GroupResource, err)
	}
	following, stop := context.WithCancel(context.Background())
	done := make(chan struct{})
	go func() {
		defer close(done)
		s.poll(following)
	}()
	return s, func() {
		stop()
		<-done
		kept.Close()
	}, nil
}

// store is a storage.Interface.
type store struct {
	*revisions.Store
	resource schema.GroupResource
	log      *changeLog
	options  Options
	// failed says why the database could not be read last.
	failed failure
	// followed counts the changes since it was last looked whether old ones are to be removed.
	followed atomic.Int64
}

// Create implements storage.Interface.
func (s *store) Create(ctx context.Context, key string, object, out runtime.Object, ttl uint64) error {
	if err := s.sync(ctx); err != nil {
		return err
	}
	return s.Store.Create(ctx, key, object, out, ttl)
}

// Delete implements storage.Interface.
func (s *store) Delete(
	ctx context.Context, key string, out runtime.Object, preconditions *storage.Preconditions, validate storage.ValidateObjectFunc,
	cached runtime.Object, o storage.DeleteOptions,
) error {
	if err := s.sync(ctx); err != nil {
		return err
	}
	return s.Store.Delete(ctx, key, out, preconditions, validate, cached, o)
}

// GuaranteedUpdate implements storage.Interface.
func (s *store) GuaranteedUpdate(
	ctx context.Context, key string, out runtime.Object, ignoreNotFound bool, preconditions *storage.Preconditions,
	update storage.UpdateFunc, cached runtime.Object,
) error {
	if err := s.sync(ctx); err != nil {
		return err
	}
	return s.Store.GuaranteedUpdate(ctx, key, out, ignoreNotFound, preconditions, update, cached)
}

// anyVersion is the resourceVersion of clients that take old objects.
const anyVersion = "0"

// Get implements storage.Interface.
func (s *store) Get(ctx context.Context, key string, o storage.GetOptions, out runtime.Object) error {
	if o.ResourceVersion != anyVersion {
		if err := s.sync(ctx); err != nil {
			return err
		}
	}
	return s.Store.Get(ctx, key, o, out)
}

// GetList implements storage.Interface.
func (s *store) GetList(ctx context.Context, key string, o storage.ListOptions, list runtime.Object) error {
	if o.ResourceVersion != anyVersion {
		if err := s.sync(ctx); err != nil {
			return err
		}
	}
	return s.Store.GetList(ctx, key, o, list)
}

// Watch implements storage.Interface.
func (s *store) Watch(ctx context.Context, key string, o storage.ListOptions) (watch.Interface, error) {
	if o.ResourceVersion != anyVersion {
		if err := s.sync(ctx); err != nil {
			return nil, err
		}
	}
	return s.Store.Watch(ctx, key, o)
}

// GetCurrentResourceVersion implements storage.Interface.
func (s *store) GetCurrentResourceVersion(ctx context.Context) (uint64, error) {
	if err := s.sync(ctx); err != nil {
		return 0, err
	}
	return s.Store.GetCurrentResourceVersion(ctx)
}

// ReadinessCheck implements storage.Interface.
func (s *store) ReadinessCheck() error {
	if err := s.failed.get(); err != nil {
		return err
	}
	return s.Store.ReadinessCheck()
}

// Compact forgets what was before a revision. It is for tests. As with etcd, that is the next revision.
func (s *store) Compact(revision int64) {
	s.Exclusively(func() {
		ctx := context.Background()
		if s.failed.set(errors.Join(s.log.compact(ctx, revision), s.log.mark(ctx), s.latest(ctx))) == nil {
			s.Forget(revision)
		}
	})
}
