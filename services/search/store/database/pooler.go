// Copyright The Tripod Authors.
// SPDX-License-Identifier: Apache-2.0

package database

import (
	"context"
	"database/sql/driver"
	"sync/atomic"

	"github.com/jackc/pgx/v5"

	"k8s.io/klog/v2"
)

// pooler finds out whether a pooler is between search and PostgreSQL, such as PgBouncer. A pooler may run each transaction on another
// connection, which does not know the prepared statements of the one before. So search prepares none there.
type pooler struct{ found atomic.Bool }

// configure chooses how a new connection executes statements. A location that says so itself has precedence.
func (p *pooler) configure(config *pgx.ConnConfig) {
	if p.found.Load() && config.DefaultQueryExecMode == pgx.QueryExecModeCacheStatement {
		config.DefaultQueryExecMode = pgx.QueryExecModeCacheDescribe
	}
}

// look compares the process that a connection was opened with and the one that answers. They are the same without a pooler. A connection
// that was configured before another one has found the pooler is made anew, too.
func (p *pooler) look(ctx context.Context, conn *pgx.Conn) error {
	if p.found.Load() {
		if conn.Config().DefaultQueryExecMode == pgx.QueryExecModeCacheStatement {
			return driver.ErrBadConn
		}
		return nil
	}
	var pid uint32
	if err := conn.QueryRow(ctx, "SELECT pg_backend_pid()", pgx.QueryExecModeSimpleProtocol).Scan(&pid); err != nil {
		return err
	}
	if pid == conn.PgConn().PID() {
		return nil
	}
	p.found.Store(true)
	klog.InfoS("The database is behind a pooler, so search prepares no statements. A direct connection is faster")
	return driver.ErrBadConn // so the connection is made anew
}
