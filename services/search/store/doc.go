// Copyright The Tripod Authors.
// SPDX-License-Identifier: Apache-2.0

// Package store keeps the objects of many clusters in SQL: SQLite, PostgreSQL 13 and later, MySQL 8.0.17, or MariaDB 10.6 and later.
//
// A stream is one resource of one cluster. [Store.Write] commits a batch of changes together with the resourceVersion that the stream has
// reached. So after a restart a stream goes on exactly after the last change that the database has. Each stream has an epoch. Opening a
// stream raises it, and a writer with an older epoch is refused. So two writers never interleave.
//
// Each change of an object gets a revision: one integer for all clusters. The counter is locked until a transaction commits, so revisions
// become visible in their order.
//
// The history has each change with the state before it, for watches. It is written in the same transaction, and goes by
// age. See [Store.Transitions].
//
// Every value in a statement is a bound parameter. The text of statements consists of constants of this package only.
package store
