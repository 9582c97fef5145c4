// Copyright The Tripod Authors.
// SPDX-License-Identifier: Apache-2.0

package store

import (
	"strconv"

	"github.com/tripod-k8s/tripod/services/search/query"
)

// mysqlAt appends the value at a path of a JSON value, or NULL. [0] of a value that is no list would be this value.
func mysqlAt(s *statement, in string, path []query.Step) {
	s.add("(CASE WHEN 1 = 1")
	for i, step := range path {
		if step.List() {
			s.add(" AND COALESCE(JSON_TYPE(JSON_EXTRACT("+in+", ?)), '') = 'ARRAY'", jsonPath(path[:i]))
		}
	}
	s.add(" THEN JSON_EXTRACT("+in+", ?) END)", jsonPath(path))
}

// mysqlText appends the text of a scalar field of a JSON value.
func mysqlText(s *statement, in string, path []query.Step) {
	s.add("(CASE JSON_TYPE(")
	mysqlAt(s, in, path)
	s.add(") WHEN 'OBJECT' THEN CHAR(1) WHEN 'ARRAY' THEN CHAR(1) WHEN 'NULL' THEN NULL ELSE CONVERT(JSON_UNQUOTE(")
	mysqlAt(s, in, path)
	s.add(") USING utf8mb4) END)")
}

// elementsInMySQL makes one table of each list. An element is in the column v.
func elementsInMySQL(s *statement, c query.Condition) {
	s.add("EXISTS (SELECT 1 FROM ")
	path, parent := c.Path, "o.object"
	for i := 0; ; i++ {
		next := indexOfEvery(path)
		if next < 0 {
			break
		}
		table := "e" + strconv.Itoa(i)
		s.add(separator(i, "", ", ") + "JSON_TABLE(CASE JSON_TYPE(")
		mysqlAt(s, parent, path[:next])
		s.add(") WHEN 'ARRAY' THEN ")
		mysqlAt(s, parent, path[:next])
		s.add(" ELSE '[]' END, '$[*]' COLUMNS (v JSON PATH '$')) " + table)
		parent, path = table+".v", path[next+1:]
	}
	s.add(" WHERE ")
	if c.Exists {
		mysqlText(s, parent, path)
		s.add(" IS NOT NULL)")
		return
	}
	mysqlAt(s, parent, path)
	s.add(" IS NOT NULL AND ")
	s.compare(c, func() {
		s.add("COALESCE(")
		mysqlText(s, parent, path)
		s.add(", '')")
	})
	s.text.WriteByte(')')
}
