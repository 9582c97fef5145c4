// Copyright The Tripod Authors.
// SPDX-License-Identifier: Apache-2.0

package database

// This file has the text of writes that several dialects share.

// migrationLock is what replicas lock while they migrate.
const migrationLock = "tripod-search-schema"

// Document is a value that PostgreSQL keeps as jsonb.
type Document string

// valuesOf appends rows as lists of values.
func valuesOf(s *Statement, rows [][]any) {
	s.Add("VALUES ")
	for i, values := range rows {
		List(s.Add(Separator(i, "", ", ")), values)
	}
}

func onConflict(key string) string { return " ON CONFLICT (" + key + ") DO UPDATE SET " }

func excluded(column string) string { return "excluded." + column }

const conflictIgnored = " ON CONFLICT DO NOTHING"

// deleteByKey selects the rows to delete, because these databases cannot limit a DELETE.
func deleteByKey(d Dialect, table, key string, limit int, which string, values ...any) *Statement {
	text := "DELETE FROM " + table + " WHERE (" + key + ") IN (SELECT " + key + " FROM " + table + " WHERE "
	return SQL(d, text+which, values...).Add(" LIMIT ?)", limit)
}

// findByPairs selects objects by pairs of namespaces and names.
func findByPairs(d Dialect, columns string, kindID, clusterID int64, keys [][2]string) *Statement {
	text := " FROM objects o WHERE o.kind_id = ? AND o.cluster_id = ? AND (o.namespace, o.name) IN "
	return Pairs(SQL(d, "SELECT "+columns+text, kindID, clusterID), keys)
}

// The table originals has the text that is served of an object, if the database keeps another form of it. See objectjson.

// Original selects the text that is served of a row with a revision, or NULL if that is the object itself.
func Original(revision string) string {
	return "(SELECT r.object FROM originals r WHERE r.revision = " + revision + ")"
}

// Served returns what is served of a row.
func Served(object, original []byte) []byte {
	if original != nil {
		return original
	}
	return object
}
