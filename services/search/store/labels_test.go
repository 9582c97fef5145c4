// Copyright The Tripod Authors.
// SPDX-License-Identifier: Apache-2.0

package store

import (
	"fmt"
	"net/url"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/tripod-k8s/tripod/services/search/query"
	"github.com/tripod-k8s/tripod/services/search/store/database"
	"github.com/tripod-k8s/tripod/services/search/store/streams"
)

// manyValues is a selector of a label with the values v0, v1, and so on.
func manyValues(t *testing.T, n int) *query.Query {
	t.Helper()
	values := make([]string, n)
	for i := range values {
		values[i] = fmt.Sprint("v", i)
	}
	q, err := query.Parse(url.Values{"labelSelector": {"app in (" + strings.Join(values, ",") + ")"}})
	require.NoError(t, err)
	return q
}

func TestManyValuesOfALabelInManyKinds(t *testing.T) {
	each(t, func(t *testing.T, s *Store) {
		const kinds = database.MaxTerms/query.MaxValues + 1 // more than the index takes
		for i := range kinds {
			kind := streams.Kind{GroupVersionResource: schema.GroupVersionResource{Group: "example.com", Version: "v1", Resource: fmt.Sprint("things", i)}, Name: fmt.Sprint("Thing", i)}
			with, without := object("", "with", "1"), object("", "without", "1")
			with.Labels, without.Labels = map[string]string{"app": fmt.Sprint("v", i)}, map[string]string{"app": "other"}
			batch := Batch{Changes: []Change{{Object: with}, {Object: without}}}
			require.NoError(t, s.Write(t.Context(), openStream(t, s, "one", kind), batch))
		}
		var found []string
		page, err := s.List(t.Context(), []schema.GroupVersionResource{{Group: "example.com"}}, manyValues(t, query.MaxValues), func(f Found) error {
			found = append(found, string(f.JSON))
			return nil
		})
		require.NoError(t, err)
		assert.Len(t, found, kinds)
		assert.False(t, page.More)
	})
}
