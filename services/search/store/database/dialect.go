// Copyright The Tripod Authors.
// SPDX-License-Identifier: Apache-2.0

package database

import (
	"context"
	"database/sql"
	"strings"

	"k8s.io/apimachinery/pkg/labels"

	"github.com/tripod-k8s/tripod/services/search/query"
)

// Dialect is what a database does in its own way.
type Dialect interface {
	// Name is that of the folder with the migrations.
	Name() string
	// LockSchema returns when no other replica migrates. unlock gets the error of the migration.
	LockSchema(ctx context.Context, conn *sql.Conn) (unlock func(error) error, err error)
	// ShareWork lets other processes of the database help with a search that compares fields of many objects.
	ShareWork(ctx context.Context, t *Tx) error
	// ReadInOrder has a search read objects by an index in the order of its list, and end with the page, rather than sort what it finds.
	ReadInOrder(ctx context.Context, t *Tx) error

	connector
	failures
	rowWriter
	conditions
	fieldReader
}

// connector opens a database, and sets what transactions may take of it.
type connector interface {
	// open returns a pool for writes and one for reads. Neither has a connection yet.
	open(location string) (write, read *sql.DB, err error)
	// validate returns what open would find wrong with the text of a location. It opens and makes nothing.
	validate(location string) error
	closeIdle(write *sql.DB)
	// readIsolation is the level at which a transaction reads one state.
	readIsolation() sql.IsolationLevel
	// limitWork begins a transaction that reads: it sets what a search may take.
	limitWork(ctx context.Context, t *Tx) error
	// analysis are the statements of Analyze.
	analysis() []string
}

// failures distinguish errors of a driver. Those of other drivers are none of them.
type failures interface {
	// isRefusal: a value of a statement was refused, so the same without it may succeed.
	isRefusal(err error) bool
	// isTimeout: the database has ended a statement because of its time.
	isTimeout(err error) bool
	// mayBeRefusal: the database cannot do something, other than that it lacks memory, disk, connections or turns. This may be about values.
	mayBeRefusal(err error) bool
}

// rowWriter has the text of statements that write, and of locks.
type rowWriter interface {
	// rows appends rows for INSERT. There is one, at least, and all have values of the same types.
	rows(s *Statement, rows [][]any)
	// OnConflict returns what an INSERT does if a row with this key exists, up to the columns that it sets. InnoDB locks more where a row is
	// looked for first, and may then deadlock.
	OnConflict(key string) string
	// Inserted returns the value that an INSERT has for a column, for OnConflict.
	Inserted(column string) string
	// orNothing ends an INSERT that does nothing if the row exists.
	orNothing() string
	// seeOthers ends a SELECT that is to see a row which another transaction has inserted since this one began.
	seeOthers() string
	// LockRows and ShareRows end a SELECT whose rows stay until the transaction ends. They are empty if one transaction writes at a time.
	LockRows() string
	ShareRows() string
	// DeleteSome deletes rows for which a condition holds, limit of them at most. key are the columns of the primary key.
	DeleteSome(table, key string, limit int, which string, values ...any) *Statement
	// ReusesIDs reports whether the ID of a row that was deleted may become that of another one.
	ReusesIDs() bool
	// LabelsAreColumn reports whether the labels of an object are a column of its row, rather than rows of a table.
	LabelsAreColumn() bool
}

// conditions append the text of conditions and of values to statements.
type conditions interface {
	// placeholder appends what stands for the nth value of a statement.
	placeholder(text *strings.Builder, n int)
	beforePairs() string
	anyOf(s *Statement, ids []int64) *Statement
	// FindObjects selects columns of objects o of a kind in a cluster by their namespaces and names.
	FindObjects(columns string, kindID, clusterID int64, keys [][2]string) *Statement
	// Contains appends that a column contains a text.
	Contains(s *Statement, column, part string)
	// ComparesRows reports whether an index helps with (a, b) > (?, ?). Otherwise it helps with alternatives.
	ComparesRows() bool
	// Label appends a requirement for objects o of some kinds, with the meaning that it has for labels.Requirement.Matches.
	Label(s *Statement, r labels.Requirement, kinds []int64)
	// LabelHasWord appends that a label of objects o has a word of query.Query.Words.
	LabelHasWord(s *Statement, word string)
	// FindsByTerms reports whether an index has the labels together with the kinds of a requirement. What it finds is of these kinds then.
	FindsByTerms(r labels.Requirement, kinds int) bool
	// UnpacksObjects reports whether comparing a field takes so long that an object should be unpacked once only.
	UnpacksObjects() bool
	// FindsFields reports whether an index finds the objects with a value in a field.
	FindsFields() bool
	// SizeOf returns the bytes that a column takes, and WithoutKey the JSON object of a column without a key.
	SizeOf(column string) string
	WithoutKey(column, key string) string
}

// fieldReader appends what fields of objects o are. Texts are appended by functions.
type fieldReader interface {
	// contained appends a condition that holds for all objects with one of the values of c, and for few others, if an index helps with it.
	// exact reports whether it holds for no others.
	contained(s *Statement, c query.Condition) (appended, exact bool)
	// mayHaveWord appends that an object itself may have a word of query.Query.Words, if the database has a column for that.
	mayHaveWord(s *Statement, word string) (appended bool)
	// textMayHave appends that the text of an object has one of some texts, for Statement.TextMayHave.
	textMayHave(s *Statement, texts []string, ignoreCase bool) (appended bool)
	// text appends the text of a scalar field: NULL if it is not there or null, and a control character if it is no scalar.
	text(s *Statement, path []query.Step)
	// elements appends whether one of the elements of lists is as c says, or exists.
	elements(s *Statement, c query.Condition)
	// binary makes a text one of bytes, where that makes a difference.
	binary(s *Statement, text func()) func()
	// lower has a to z stand for A to Z in a text, as far as some texts in lower case have these letters.
	lower(s *Statement, values []string, text func()) func()
	// position appends where a text has a value, counted from 1, or 0.
	position(s *Statement, text func(), value string)
	// rankNumber and rankText append the place of a text in an order: those of query.RankOf.
	rankNumber(s *Statement, text func(*Statement))
	rankText(s *Statement, text func(*Statement))
	// moment appends the form of query.MomentOf of a text, or NULL if it is no time.
	moment(s *Statement, text func(*Statement))
}

// dialects are all of them once.
var dialects = []Dialect{sqlite{}, postgres{}, mysqlFamily{}}
