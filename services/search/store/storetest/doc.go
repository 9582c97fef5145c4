// Copyright The Tripod Authors.
// SPDX-License-Identifier: Apache-2.0

// Package storetest runs the databases that tests of search use: SQLite in a file, and servers of PostgreSQL and MariaDB on loopback.
//
// The servers are those of Debian's packages postgresql, pgbouncer and mariadb-server. Tests skip a server that is not installed.
// TEST_POSTGRES=1 and TEST_MARIADB=1 make that an error, and 0 leaves the server out.
package storetest
