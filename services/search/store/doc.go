// Copyright The Tripod Authors.
// SPDX-License-Identifier: Apache-2.0

// Package store keeps the objects of many clusters in SQL: SQLite, PostgreSQL 13 and later, or MariaDB 10.6 and later. No test runs
// MySQL, which takes the statements for MariaDB from 8.0.17 on.
//
// [Store.Write] commits a batch of changes of a stream together with the resourceVersion that the stream has reached. So after a restart a
// stream goes on exactly after the last change that the database has. Each change of an object gets a revision: one integer for all
// clusters. [Store.List] and [Store.Get] find objects as they are, and [Store.GetAt] and a query with a moment as they were.
//
// The packages below have one subject each. Each of them imports those below it in this list only:
//
//	history     each change with the state before it, for watches and searches of the past
//	access      rights: policies, RBAC objects of clusters, and what a reader sees
//	streams     clusters, kinds, streams with their writers, OpenAPI documents
//	schema      the tables, as migrations
//	database    transactions and statements; one dialect for each kind of database
//	objectjson  the JSON of objects: the form for databases, and edits of its text
//
// A [Store] has the methods of all of them. Objects are in this package itself, because a batch changes objects, history and rights in one
// transaction, and a search reads them in one statement.
//
// Every value in a statement is a bound parameter. The text of statements consists of constants of these packages only.
package store
