// Copyright The Tripod Authors.
// SPDX-License-Identifier: Apache-2.0

package store

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"net"
	"net/url"
	"os"
	"strings"
	"time"

	"github.com/go-sql-driver/mysql"
	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/stdlib"
	_ "modernc.org/sqlite" // the driver "sqlite"

	"github.com/tripod-k8s/tripod/internal/hop/keepalive"
)

// dialect is a family of databases.
type dialect string

const (
	sqlite   dialect = "sqlite"
	postgres dialect = "postgres"
	// mysqlFamily is MySQL and MariaDB.
	mysqlFamily dialect = "mysql"
)

// busyTimeout is how long a writer of SQLite waits for another one.
const busyTimeout = 10 * time.Second

// A process has this many connections to a database server at most. Readers have their own, so that they never keep what is copied waiting. Searches leave
// some of these to what is read in no time, such as names and rights: all requests need that.
const (
	maxSearches = 12
	maxReaders  = maxSearches + 3
	maxWriters  = 8
)

// open returns a pool for writes and one for reads. Neither has a connection yet.
func open(location string) (d dialect, write, read *sql.DB, err error) {
	scheme, rest, _ := strings.Cut(location, ":")
	var server func(string) (*sql.DB, error)
	switch scheme {
	case "sqlite":
		write, read, err = openSQLite(strings.TrimPrefix(rest, "//"))
		return sqlite, write, read, err
	case "postgres", "postgresql":
		d, server = postgres, openPostgres
	case "mysql", "mariadb":
		d, server = mysqlFamily, openMySQL
	default:
		err = fmt.Errorf("the database must be sqlite:FILE, postgres://USER:PASSWORD@HOST/DATABASE or mysql://USER:PASSWORD@HOST/DATABASE")
	}
	if err != nil {
		return "", nil, nil, err
	}
	if write, err = server(location); err != nil {
		return "", nil, nil, err
	}
	if read, err = server(location); err != nil {
		return "", nil, nil, errors.Join(err, write.Close())
	}
	limitConnections(write, maxWriters)
	limitConnections(read, maxReaders)
	return d, write, read, nil
}

func limitConnections(pool *sql.DB, most int) {
	pool.SetMaxOpenConns(most)
	pool.SetMaxIdleConns(most)
	pool.SetConnMaxIdleTime(5 * time.Minute)
}

// openSQLite has one connection that writes, because SQLite has one writer at a time, and several that read beside it.
func openSQLite(path string) (write, read *sql.DB, err error) {
	if path == "" {
		return nil, nil, fmt.Errorf("sqlite: needs a file, as in sqlite:/var/lib/search.db")
	}
	// Copies of objects are nobody else's. SQLite gives its other files the mode of this one.
	file, err := os.OpenFile(path, os.O_CREATE|os.O_RDWR, 0o600)
	if err != nil {
		return nil, nil, fmt.Errorf("sqlite: %w", err)
	}
	if err := file.Close(); err != nil {
		return nil, nil, fmt.Errorf("sqlite: %w", err)
	}
	options := url.Values{"_txlock": {"immediate"}, "_pragma": {
		fmt.Sprintf("busy_timeout(%d)", busyTimeout.Milliseconds()), "journal_mode(WAL)", "synchronous(NORMAL)",
	}}
	name := (&url.URL{Scheme: "file", Opaque: (&url.URL{Path: path}).EscapedPath(), RawQuery: options.Encode()}).String()
	if write, err = sql.Open("sqlite", name); err != nil {
		return nil, nil, err
	}
	write.SetMaxOpenConns(1)
	if read, err = sql.Open("sqlite", name); err != nil {
		return nil, nil, err
	}
	read.SetMaxOpenConns(maxReaders)
	read.SetMaxIdleConns(4)
	return write, read, nil
}

func openPostgres(location string) (*sql.DB, error) {
	config, err := pgx.ParseConfig(location)
	if err != nil {
		return nil, fmt.Errorf("postgres: %w", err) // pgx leaves the password out
	}
	config.RuntimeParams["application_name"] = "tripod-search"
	config.DialFunc = noticing(config.DialFunc)
	pooler := &pooler{}
	return stdlib.OpenDB(*config, stdlib.OptionAfterConnect(pooler.look), stdlib.OptionBeforeConnect(func(_ context.Context, c *pgx.ConnConfig) error {
		pooler.configure(c)
		// Files of certificates may have been renewed.
		renewed, err := pgx.ParseConfig(location)
		if err == nil {
			c.TLSConfig, c.Fallbacks = renewed.TLSConfig, renewed.Fallbacks
		}
		return err
	})), nil
}

func openMySQL(location string) (*sql.DB, error) {
	u, err := url.Parse(location)
	if err != nil {
		return nil, fmt.Errorf("mysql: the URL of the database cannot be parsed") // the error has the password
	}
	config := mysql.NewConfig()
	config.Net, config.Addr = "tcp", u.Host
	if u.Port() == "" {
		config.Addr = net.JoinHostPort(u.Hostname(), "3306")
	}
	if socket := u.Query().Get("socket"); socket != "" {
		config.Net, config.Addr = "unix", socket
	}
	config.User = u.User.Username()
	config.Passwd, _ = u.User.Password()
	config.DBName = strings.TrimPrefix(u.Path, "/")
	config.TLSConfig = u.Query().Get("tls")
	// A statement that changes a row to what it was counts that row, as in other databases.
	config.ClientFoundRows = true
	config.Collation = "utf8mb4_bin"
	config.DialFunc = noticing((&net.Dialer{}).DialContext)
	config.InterpolateParams = false
	connector, err := mysql.NewConnector(config)
	if err != nil {
		return nil, fmt.Errorf("mysql: %w", err)
	}
	return sql.OpenDB(connector), nil
}

// noticing makes connections notice within a minute that the server is gone without a word. Otherwise, a write might wait for a quarter of an hour.
func noticing(dial func(ctx context.Context, network, address string) (net.Conn, error)) func(ctx context.Context, network, address string) (net.Conn, error) {
	return func(ctx context.Context, network, address string) (net.Conn, error) {
		conn, err := dial(ctx, network, address)
		if err == nil {
			keepalive.Set(conn)
			keepalive.LimitPauses(conn)
		}
		return conn, err
	}
}
