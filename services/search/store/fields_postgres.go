// Copyright The Tripod Authors.
// SPDX-License-Identifier: Apache-2.0

package store

import (
	"slices"
	"strconv"
	"strings"

	"github.com/tripod-k8s/tripod/services/search/query"
)

// postgresAt appends the value at a path of a JSON value, or NULL.
//
// The operator #> takes a number for a place in a list or for a name, whichever fits. So a path with numbers is a strict one of jsonpath, which does not
// take longer than that by much.
func postgresAt(s *statement, in string, path []query.Step) {
	if slices.ContainsFunc(path, func(step query.Step) bool { return step.List() || isNumber(step.Name) }) {
		s.add("jsonb_path_query_first("+in+", CAST(? AS jsonpath), '{}', true)", "strict "+jsonPath(path))
		return
	}
	names := make([]string, 0, len(path))
	for _, step := range path {
		names = append(names, indexedName(step.Name))
	}
	s.add(in+" #> ?", names)
}

// isNumber reports whether PostgreSQL may take a name for a place in a list.
func isNumber(name string) bool {
	return strings.Trim(name, "+-0123456789 \t\n\v\f\r") == ""
}

// postgresText appends the text of a scalar field of a JSON value.
func postgresText(s *statement, in string, path []query.Step) {
	s.add("(CASE WHEN jsonb_typeof(")
	postgresAt(s, in, path)
	s.add(") IN ('object', 'array') THEN chr(1) ELSE (")
	postgresAt(s, in, path)
	s.add(") #>> '{}' END)")
}

// elementsInPostgres makes one table of each list. An element is in the column v.
func elementsInPostgres(s *statement, c query.Condition) {
	s.add("EXISTS (SELECT 1 FROM ")
	path, parent := c.Path, "o.object"
	for i := 0; ; i++ {
		next := indexOfEvery(path)
		if next < 0 {
			break
		}
		table := "e" + strconv.Itoa(i)
		s.add(separator(i, "", ", ") + "jsonb_array_elements(CASE jsonb_typeof(")
		postgresAt(s, parent, path[:next])
		s.add(") WHEN 'array' THEN ")
		postgresAt(s, parent, path[:next])
		s.add(" ELSE '[]' END) " + table + "(v)")
		parent, path = table+".v", path[next+1:]
	}
	if c.Exists {
		postgresText(s.add(" WHERE "), parent, path)
		s.add(" IS NOT NULL)")
		return
	}
	s.add(" WHERE (")
	postgresAt(s, parent, path)
	s.add(") IS NOT NULL AND ")
	s.compare(c, func() {
		s.add("COALESCE(")
		postgresText(s, parent, path)
		s.add(", '')")
	})
	s.text.WriteByte(')')
}
