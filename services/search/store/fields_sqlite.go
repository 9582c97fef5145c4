// Copyright The Tripod Authors.
// SPDX-License-Identifier: Apache-2.0

package store

import (
	"strconv"
	"strings"

	"github.com/tripod-k8s/tripod/services/search/query"
)

// sqliteObject is an object in which SQLite finds nothing rather than fail, if it is none that SQLite can read: an older version of search may have written
// it, with more than 1,000 levels.
const sqliteObject = "CASE WHEN json_valid(o.object) THEN o.object ELSE '{}' END"

// sqliteText appends the text of a scalar field, whose path is appended by at.
func sqliteText(s *statement, at func()) {
	s.add("(CASE json_type(" + sqliteObject + ", ")
	at()
	s.add(") WHEN 'true' THEN 'true' WHEN 'false' THEN 'false' WHEN 'object' THEN char(1) WHEN 'array' THEN char(1) ELSE CAST(json_extract(" + sqliteObject + ", ")
	at()
	s.add(") AS TEXT) END)")
}

// elementsInSQLite makes one table of each list. The path of an element is in the column fullkey. (SQLite 3.51 makes joins of EXISTS, and then OFFSET
// counts an object once for each of its elements. A subquery with a limit stays as it is.)
func elementsInSQLite(s *statement, c query.Condition) {
	s.add("((SELECT 1 FROM ")
	var conditions []string
	path, parent := c.Path, ""
	for i := 0; ; i++ {
		next := indexOfEvery(path)
		if next < 0 {
			break
		}
		table := "e" + strconv.Itoa(i)
		s.add(separator(i, "", ", ") + "json_each(" + sqliteObject + ", ")
		s.below(parent, path[:next])
		s.add(") " + table)
		conditions = append(conditions, "typeof("+table+".key) = 'integer'")
		parent, path = table, path[next+1:]
	}
	s.add(" WHERE " + strings.Join(conditions, " AND ") + " AND ")
	text := func() { sqliteText(s, func() { s.below(parent, path) }) }
	if c.Exists {
		text()
		s.add(" IS NOT NULL LIMIT 1) IS NOT NULL)")
		return
	}
	s.compare(c, func() {
		s.add("CASE json_type(" + sqliteObject + ", ")
		s.below(parent, path)
		s.add(") WHEN 'null' THEN '' ELSE ")
		text()
		s.add(" END")
	})
	s.add(" LIMIT 1) IS NOT NULL)")
}

// below appends a path of SQLite below an element of a table, or below the object.
func (s *statement) below(table string, path []query.Step) {
	if table == "" {
		s.bind(jsonPath(path))
		return
	}
	s.add(table+".fullkey || ?", strings.TrimPrefix(jsonPath(path), "$"))
}
