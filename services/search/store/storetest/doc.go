// Copyright The Tripod Authors.
// SPDX-License-Identifier: Apache-2.0

// Package storetest runs the databases that tests of search use: SQLite in a file, and servers of PostgreSQL and MariaDB on loopback.
//
// The servers are those of Debian's packages postgresql and mariadb-server. A test fails where one is missing.
package storetest
