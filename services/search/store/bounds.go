// Copyright The Tripod Authors.
// SPDX-License-Identifier: Apache-2.0

package store

import "slices"

// Bounds are those of the memory that an answer takes. The zero value has none.
type Bounds struct {
	// Page ends a page after so many bytes of objects, with at least one object. Zero does not, and neither does a query with an offset.
	Page int64
	// Charge is told how many bytes of objects are kept more, or fewer. An error of it ends the search. It must not wait: a connection would
	// wait with it.
	Charge func(bytes int64) error
}

// Within returns the store with bounds for what List, Get, Events and Transitions keep.
func (s *Store) Within(bounds Bounds) *Store {
	limited := *s
	limited.bounds = bounds
	return &limited
}

func (b Bounds) charge(bytes int) error {
	if b.Charge == nil {
		return nil
	}
	return b.Charge(int64(bytes))
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
	return all[:n], size, b.bounds.charge(-dropped)
}
