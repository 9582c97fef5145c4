// Copyright The Tripod Authors.
// SPDX-License-Identifier: Apache-2.0

package database

// Bounds are those of the memory that an answer takes. The zero value has none.
type Bounds struct {
	// Page ends a page after so many bytes of objects, with at least one object. Zero does not, and neither does a query with an offset.
	Page int64
	// Charge counts how many bytes of objects are kept more, or fewer. An error of it ends the search. It must not wait: a connection would
	// wait with it.
	Charge func(bytes int64) error
}

// Keep reports that bytes of objects are kept more, or fewer.
func (b Bounds) Keep(bytes int) error {
	if b.Charge == nil {
		return nil
	}
	return b.Charge(int64(bytes))
}
