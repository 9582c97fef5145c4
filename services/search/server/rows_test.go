// Copyright The Tripod Authors.
// SPDX-License-Identifier: Apache-2.0

package server

import (
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/tripod-k8s/tripod/services/search/store"
)

// madeRows returns how many rows of large objects were made, and not found.
func (r *rows) madeRows() int {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.made
}

// TestALargeChangeIsDecodedOnceForAllWatches has watches that show the same changes as tables, and one that shows them in another way.
func TestALargeChangeIsDecodedOnceForAllWatches(t *testing.T) {
	largeRows = &rows{} // without those of another run
	s, stream := withThings(t, 0, "")
	const asTable = "application/json;as=Table;g=meta.k8s.io;v=v1"
	location := serverOf(t, NewHandler(s, nil, nil)) + "resources/apis/example.com/v1/things?watch=true&resourceVersion=1"
	var watches []func() *event
	for range 20 {
		watches = append(watches, open(t, location, asTable))
	}
	writeThing(t, s, stream, "thing", manyParts)
	for _, next := range watches {
		assert.Equal(t, "ADDED", next().Type)
	}
	assert.Equal(t, 1, largeRows.madeRows())
	gone := store.Change{Object: store.Object{Namespace: "default", Name: "thing", UID: "thing", ResourceVersion: "2"}, Deleted: true}
	require.NoError(t, s.Write(t.Context(), stream, store.Batch{Changes: []store.Change{gone}}))
	for _, next := range watches {
		assert.Equal(t, "DELETED", next().Type)
	}
	assert.Equal(t, 2, largeRows.madeRows(), "it has another resourceVersion")
	writeThing(t, s, stream, "other", manyParts)
	assert.Equal(t, "ADDED", watches[0]().Type)
	assert.Equal(t, "ADDED", open(t, location+"&includeObject=None", asTable)().Type)
	assert.GreaterOrEqual(t, largeRows.madeRows(), 4, "another form")
}
