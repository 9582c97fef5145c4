// Copyright The Tripod Authors.
// SPDX-License-Identifier: Apache-2.0

package store

import (
	"context"
	"maps"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/tripod-k8s/tripod/services/search/query"
	"github.com/tripod-k8s/tripod/services/search/store/database"
)

// kindNames are the names that clusters have for a kind.
type kindNames map[int64][]string

// clusterNames are the names of clusters.
type clusterNames map[int64]string

// clusterNamesOf returns those of all clusters, if a search looks for words.
func clusterNamesOf(ctx context.Context, t *database.Tx, q *query.Query) (clusterNames, error) {
	if len(q.Words) == 0 {
		return nil, nil
	}
	names := clusterNames{}
	err := t.Each(ctx, t.SQL("SELECT id, name FROM clusters"), func(scan func(...any) error) error {
		var id int64
		var name string
		err := scan(&id, &name)
		names[id] = query.Lowered(name)
		return err
	})
	return names, err
}

// with returns the clusters whose name has a word.
func (n clusterNames) with(word string) (all []int64) {
	for id, name := range n {
		if strings.Contains(name, word) {
			all = append(all, id)
		}
	}
	slices.Sort(all)
	return all
}

// kindNamesOf returns those of all kinds, if a search looks for words.
func kindNamesOf(ctx context.Context, t *database.Tx, q *query.Query) (kindNames, error) {
	if len(q.Words) == 0 {
		return nil, nil
	}
	names := kindNames{}
	find := t.SQL("SELECT DISTINCT s.kind_id, COALESCE(s.kind, k.kind) FROM streams s JOIN kinds k ON k.id = s.kind_id")
	err := t.Each(ctx, find, func(scan func(...any) error) error {
		var id int64
		var name string
		err := scan(&id, &name)
		names[id] = append(names[id], name)
		return err
	})
	return names, err
}

// with returns the kinds of which all names have a word, and those of which some have.
func (n kindNames) with(kinds []int64, word string) (all, some []int64) {
	for _, id := range kinds {
		has := 0
		for _, name := range n[id] {
			if strings.Contains(query.Lowered(name), word) {
				has++
			}
		}
		switch {
		case has == 0:
		case has == len(n[id]):
			all = append(all, id)
		default:
			some = append(some, id)
		}
	}
	return all, some
}

// exactness is how words are compared.
type exactness int

const (
	// exactly finds the objects with the words, by an index if the database has one.
	exactly exactness = iota
	// roughly finds a few other objects, too, where that is all that an index has.
	roughly
	// among compares the words with objects that were found roughly.
	among
)

// words appends that each word is somewhere in an object: in its name, namespace, cluster, kind, labels, or images. What takes the database
// least comes first. It reports whether that finds no other objects.
func (b *search) words(s *database.Statement, how exactness) (exact bool) {
	exact = true
	for _, word := range b.q.Words {
		all, some := b.kindNames.with(b.kinds, word)
		if len(all) == len(b.kinds) {
			continue
		}
		s.Add(" AND (")
		if len(all) > 0 {
			database.OneOf(s.Add("o.kind_id"), all).Add(" OR ")
		}
		if clusters := b.clusterNames.with(word); len(clusters) > 0 { // of these kinds, so that an index has them
			database.OneOf(database.OneOf(s.Add("o.kind_id"), b.kinds).Add(" AND o.cluster_id"), clusters).Add(" OR ")
		}
		if len(some) > 0 {
			database.OneOf(s.Add("o.kind_id"), some).Add(" AND ")
			s.Condition(query.Word([]query.Step{{Name: "kind"}}, word))
			s.Add(" OR ")
		}
		switch indexed := how != among && s.MayHaveWord(word); {
		case indexed && how == roughly:
			s.Add(")")
			exact = false
			continue
		case indexed:
			s.Add(" AND (")
		default:
			s.Add("(")
		}
		s.HasWord(word, "o.name", "o.namespace")
		b.LabelHasWord(s.Add(" OR "), word)
		b.imageHas(s, word)
		s.Add("))")
	}
	return exact
}

// imageHas appends OR and that an image has a word, for the kinds that have images.
func (b *search) imageHas(s *database.Statement, word string) {
	byPaths := map[string][]schema.GroupKind{}
	for kind, paths := range query.Images {
		key := database.JSONPath(paths[0])
		byPaths[key] = append(byPaths[key], kind)
	}
	for _, key := range slices.Sorted(maps.Keys(byPaths)) {
		var ids []int64
		for _, kind := range byPaths[key] {
			resource, _ := meta.UnsafeGuessKindToResource(kind.WithVersion("")) // a kind of Kubernetes itself
			for _, id := range b.kinds {
				if b.resourceOf[id] == resource.GroupResource() {
					ids = append(ids, id)
				}
			}
		}
		if len(ids) == 0 {
			continue
		}
		slices.Sort(ids)
		database.OneOf(s.Add(" OR o.kind_id"), ids).Add(" AND ")
		if s.TextMayHave(word, true) {
			s.Add(" AND ")
		}
		s.Add("(")
		for i, path := range query.Images[byPaths[key][0]] {
			s.Add(database.Separator(i, "", " OR "))
			s.Condition(query.Word(path, word))
		}
		s.Add(")")
	}
}
