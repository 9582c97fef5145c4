// Copyright The Tripod Authors.
// SPDX-License-Identifier: Apache-2.0

package database

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"net"
	"strings"
	"time"

	"github.com/tripod-k8s/tripod/base/hop/keepalive"
)

// DB is an open database.
type DB struct {
	Dialect
	write, read *sql.DB
	// searches has room for those that run. Others wait for them without a connection.
	searches chan struct{}
	// throttle is nil if nothing has to wait for others.
	throttle Throttle
}

// A process has this many connections to a database server at most. Readers have their own, so that they never keep what is copied
// waiting. Searches leave some of these to what is read in no time, such as names and rights: all requests need that.
const (
	// MaxSearches is how many connections Searching takes at most.
	MaxSearches = 12
	// MaxReaders is how many connections read at most.
	MaxReaders = MaxSearches + 3
	maxWriters = 8
)

// StatementTimeout bounds what a search may take of the database.
const StatementTimeout = 30 * time.Second

// ErrTimeout says that the database did not answer in StatementTimeout, with the wait for a connection.
var ErrTimeout = fmt.Errorf("the database did not answer in %s", StatementTimeout)

// schemes are the dialects by the scheme of the URL of a database.
var schemes = map[string]Dialect{
	"sqlite": sqlite{}, "postgres": postgres{}, "postgresql": postgres{}, "mysql": mysqlFamily{}, "mariadb": mysqlFamily{},
}

// Open returns the database at a URL: sqlite:FILE, postgres://USER:PASSWORD@HOST/DATABASE or mysql://USER:PASSWORD@HOST/DATABASE. It
// connects when it is first used.
func Open(location string) (*DB, error) {
	dialect, err := dialectOf(location)
	if err != nil {
		return nil, err
	}
	write, read, err := dialect.open(location)
	if err != nil {
		return nil, err
	}
	return &DB{Dialect: dialect, write: write, read: read, searches: make(chan struct{}, MaxSearches)}, nil
}

// Validate returns what is wrong with the URL of a database, before Open. It makes no file and no connection.
func Validate(location string) error {
	dialect, err := dialectOf(location)
	if err != nil {
		return err
	}
	return dialect.validate(location)
}

func dialectOf(location string) (Dialect, error) {
	scheme, _, _ := strings.Cut(location, ":")
	dialect, known := schemes[scheme]
	if !known {
		return nil, errors.New(
			"the database must be sqlite:FILE, postgres://USER:PASSWORD@HOST/DATABASE or mysql://USER:PASSWORD@HOST/DATABASE")
	}
	return dialect, nil
}

// openServer returns a pool for writes and one for reads of a database server. Neither has a connection yet.
func openServer(location string, open func(string) (*sql.DB, error)) (write, read *sql.DB, err error) {
	if write, err = open(location); err != nil {
		return nil, nil, err
	}
	if read, err = open(location); err != nil {
		return nil, nil, errors.Join(err, write.Close())
	}
	limitConnections(write, maxWriters)
	limitConnections(read, MaxReaders)
	return write, read, nil
}

func limitConnections(pool *sql.DB, most int) {
	pool.SetMaxOpenConns(most)
	pool.SetMaxIdleConns(most)
	pool.SetConnMaxIdleTime(5 * time.Minute)
}

// noticing makes connections notice within a minute that the server is gone without a word. Otherwise, a write might wait for a quarter of
// an hour.
func noticing(dial dialFunc) dialFunc {
	return func(ctx context.Context, network, address string) (net.Conn, error) {
		conn, err := dial(ctx, network, address)
		if err == nil {
			keepalive.Set(conn)
			keepalive.LimitPauses(conn)
		}
		return conn, err
	}
}

type dialFunc = func(ctx context.Context, network, address string) (net.Conn, error)

// Close closes all connections.
func (d *DB) Close() error { return errors.Join(d.read.Close(), d.write.Close()) }

// CloseIdleConnections closes connections that nothing uses. Each keeps its last batch (pgx): 16 have 14 MB after a first copy.
func (d *DB) CloseIdleConnections() { d.closeIdle(d.write) }

// closeIdleWriters closes the connections to a server that nothing uses.
func closeIdleWriters(write *sql.DB) {
	write.SetMaxIdleConns(0)
	write.SetMaxIdleConns(maxWriters)
}

// Ping returns why the database cannot be reached.
func (d *DB) Ping(ctx context.Context) error { return d.read.PingContext(ctx) }

// Writer returns the connections that write, and Reader those that read, for what needs no transaction of a DB.
func (d *DB) Writer() *sql.DB { return d.write }

// Reader returns the connections that read.
func (d *DB) Reader() *sql.DB { return d.read }

// Within runs a function in a transaction that writes.
func (d *DB) Within(ctx context.Context, do func(*Tx) error) error {
	defer measure(writes)()
	tx, err := d.write.BeginTx(ctx, nil)
	if err != nil {
		return err
	}
	defer tx.Rollback() //nolint:errcheck // it is an error after a commit
	if err := do(&Tx{d.Dialect, tx}); err != nil {
		return err
	}
	return tx.Commit()
}

// Searching is Reading for what may take long. It waits while others of that take the connections for it.
func (d *DB) Searching(ctx context.Context, do func(*Tx) error) error {
	return d.inTime(ctx, func(ctx context.Context) error {
		select {
		case d.searches <- struct{}{}:
			defer func() { <-d.searches }()
			return d.readOnce(ctx, do)
		case <-ctx.Done():
			return ctx.Err()
		}
	})
}

// Reading runs a function in a transaction that reads one state of the database.
func (d *DB) Reading(ctx context.Context, do func(*Tx) error) error {
	return d.inTime(ctx, func(ctx context.Context) error { return d.readOnce(ctx, do) })
}

// inTime calls read, which may take as long as a search may.
func (d *DB) inTime(ctx context.Context, read func(context.Context) error) error {
	defer measure(reads)()
	limited, cancel := context.WithTimeout(ctx, StatementTimeout)
	defer cancel()
	err := read(limited)
	if err != nil && ctx.Err() == nil && (limited.Err() != nil || d.isTimeout(err)) {
		err = errors.Join(ErrTimeout, err)
	}
	return err
}

func (d *DB) readOnce(ctx context.Context, do func(*Tx) error) error {
	tx, err := d.read.BeginTx(ctx, &sql.TxOptions{ReadOnly: true, Isolation: d.readIsolation()})
	if err != nil {
		return err
	}
	defer tx.Rollback() //nolint:errcheck // it only reads
	t := &Tx{d.Dialect, tx}
	if err := d.limitWork(ctx, t); err != nil {
		return err
	}
	return do(t)
}

// Analyze lets the database look at what the tables have. Without that, it may not use the index that fits a search.
func (d *DB) Analyze(ctx context.Context) error {
	conn, err := d.write.Conn(ctx)
	if err != nil {
		return err
	}
	defer conn.Close() //nolint:errcheck // it goes back to the pool
	for _, text := range d.analysis() {
		if _, err := conn.ExecContext(ctx, text); err != nil {
			return err
		}
	}
	return nil
}
