// Copyright The Tripod Authors.
// SPDX-License-Identifier: Apache-2.0

package store

import (
	"cmp"
	"slices"
	"strings"

	"github.com/tripod-k8s/tripod/services/search/query"
	"github.com/tripod-k8s/tripod/services/search/store/database"
)

// sortKey is something by which lists are sorted: a column, and the same of an entry. Its values are int64, float64 or string.
type sortKey struct {
	column string
	// expression appends what stands for the column, if that is more than its text.
	expression func(*database.Statement)
	of         func(*entry) any
	descending bool
}

func (k sortKey) write(s *database.Statement) *database.Statement {
	if k.expression == nil {
		return s.Add(k.column)
	}
	k.expression(s)
	return s
}

// sortKeys are those of each column of queries. resourceVersions are numbers of any length.
var sortKeys = map[query.Column][]sortKey{
	query.Cluster:   {{column: "c.name", of: func(e *entry) any { return e.Cluster }}},
	query.Namespace: {byNamespace},
	query.Name:      {byName},
	query.UID:       {{column: "o.uid", of: func(e *entry) any { return e.uid }}},
	query.CreatedAt: {{column: "o.created_at", of: func(e *entry) any { return e.createdAt }}},
	query.ResourceVersion: {
		{column: "LENGTH(o.resource_version)", of: func(e *entry) any { return int64(len(e.resourceVersion)) }},
		{column: "o.resource_version", of: func(e *entry) any { return e.resourceVersion }},
	},
	query.Group:    {{column: "k.api_group", of: func(e *entry) any { return e.Kind.Group }}},
	query.Version:  {{column: "k.version", of: func(e *entry) any { return e.Kind.Version }}},
	query.Resource: {{column: "k.resource", of: func(e *entry) any { return e.Resource }}},
	query.Kind:     {{column: "k.kind", of: func(e *entry) any { return e.Kind.Kind }}},
}

var (
	byKind      = sortKey{column: "o.kind_id", of: func(e *entry) any { return e.kindID }}
	byNamespace = sortKey{column: "o.namespace", of: func(e *entry) any { return e.namespace }}
	byName      = sortKey{column: "o.name", of: func(e *entry) any { return e.name }}
	byCluster   = sortKey{column: "o.cluster_id", of: func(e *entry) any { return e.clusterID }}
)

// order is what a list is sorted by. Each object has its place in it, so that pages fit together.
type order []sortKey

func (b *search) order() (keys order) {
	add := func(key sortKey) {
		if !slices.ContainsFunc(keys, func(k sortKey) bool { return k.column == key.column }) {
			keys = append(keys, key)
		}
	}
	for _, asked := range b.q.Order {
		keys := sortKeys[asked.Column]
		if len(asked.Path) > 0 {
			keys = byField(asked.Path)
		}
		for _, key := range keys {
			key.descending = asked.Descending
			add(key)
		}
	}
	if len(b.kinds) > 1 {
		add(byKind)
	}
	for _, key := range []sortKey{byNamespace, byName, byCluster} {
		add(key)
	}
	return keys
}

// isDefault reports whether the query has no order.
func (b *search) isDefault() bool { return len(b.q.Order) == 0 }

// orderBy appends an order.
func (o order) orderBy(s *database.Statement) *database.Statement {
	for i, key := range o {
		key.write(s.Add(database.Separator(i, " ORDER BY ", ", ")))
		if key.descending {
			s.Add(" DESC")
		}
	}
	return s
}

// bound returns what is bound for the key of an entry.
func (k sortKey) bound(e *entry) any {
	value := k.of(e)
	if text, is := value.(string); is && k.expression != nil {
		return database.Computed(text)
	}
	return value
}

func (o order) compare(a, b *entry) int {
	for _, key := range o {
		var c int
		switch x := key.of(a).(type) {
		case int64:
			c = cmp.Compare(x, key.of(b).(int64))
		case float64:
			c = cmp.Compare(x, key.of(b).(float64))
		case string:
			c = strings.Compare(x, key.of(b).(string))
		}
		if key.descending {
			c = -c
		}
		if c != 0 {
			return c
		}
	}
	return 0
}

// after appends that a row of objects comes after an entry.
func (o order) after(b *search, s *database.Statement, e *entry) {
	if b.ComparesRows() && !slices.ContainsFunc(o, func(k sortKey) bool { return k.descending }) {
		var values []any
		for i, key := range o {
			key.write(s.Add(database.Separator(i, " AND (", ", ")))
			values = append(values, key.bound(e))
		}
		database.List(s.Add(") > "), values)
		return
	}
	s.Add(" AND (")
	for i, key := range o {
		sign := " > ?"
		if key.descending {
			sign = " < ?"
		}
		key.write(s).Add(sign, key.bound(e))
		if i < len(o)-1 {
			key.write(s.Add(" OR ")).Add(" = ? AND (", key.bound(e))
		}
	}
	s.Add(strings.Repeat(")", len(o)))
}

// byField returns the keys of an order by a field: those of query.Rank.
func byField(path []query.Step) []sortKey {
	name := database.JSONPath(path)
	return []sortKey{
		{
			column: "number " + name, of: func(e *entry) any { return e.rank(path).Number },
			expression: func(s *database.Statement) { s.RankNumber(path) },
		},
		{
			column: "text " + name, of: func(e *entry) any { return e.rank(path).Text },
			expression: func(s *database.Statement) { s.RankText(path) },
		},
	}
}
