// Copyright The Tripod Authors.
// SPDX-License-Identifier: Apache-2.0

// Package database runs transactions and statements on SQLite, PostgreSQL and MariaDB.
//
// A [Dialect] has all that these do differently. Each is one file: sqlite.go, postgres.go and mysql.go, which is for MariaDB. No other code
// asks which database it is. [Open] is the place that maps the scheme of a URL to a dialect.
//
// A [Statement] is text with bound values. Its text consists of constants of the packages of the store only. A [Tx] runs statements in a
// transaction, which [DB] begins: Within writes, Reading reads one state of the database, and Searching reads for what may take long.
//
// Writers lock a counter of revisions until they commit, see [Tx.Revisions]. So revisions become visible in their order.
package database
