// Copyright The Tripod Authors.
// SPDX-License-Identifier: Apache-2.0

package store

import (
	"slices"

	"github.com/tripod-k8s/tripod/services/search/store/database"
	"github.com/tripod-k8s/tripod/services/search/store/history"
)

// Within returns the store with bounds for what List, Get, Events and Transitions keep.
func (s *Store) Within(bounds database.Bounds) *Store {
	limited := *s
	limited.bounds, limited.Log = bounds, history.In(s.db, bounds)
	return &limited
}

// fills reports whether a page is full with so many bytes.
func (b *search) fills(bytes int64) bool {
	return b.bounds.Page > 0 && b.q.Offset == 0 && bytes >= b.bounds.Page
}

// pageOf returns how many entries make a page.
func (b *search) pageOf(all []*entry) (n int) {
	size := int64(0)
	for n < len(all) && (b.q.Limit == 0 || int64(n) < b.q.Limit) && !b.fills(size) {
		size += int64(len(all[n].JSON))
		n++
	}
	return n
}

// first returns the first entries, those that a page may need, and their size. It forgets the others.
func (b *search) first(all []*entry, needed int64) (kept []*entry, size int64, err error) {
	slices.SortFunc(all, b.order().compare)
	n, dropped := 0, 0
	for ; n < len(all) && (needed == 0 || int64(n) < needed) && !b.fills(size); n++ {
		size += int64(len(all[n].JSON))
	}
	for _, e := range all[n:] {
		dropped += len(e.JSON)
	}
	clear(all[n:])
	return all[:n], size, b.bounds.Keep(-dropped)
}
