// Copyright The Tripod Authors.
// SPDX-License-Identifier: Apache-2.0

package store

import (
	"cmp"
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/tripod-k8s/tripod/services/search/query"
)

// TestEachDatabaseHasTheSameOrderOfValues sorts one object for each value that the property tests use, as a text and as a number.
func TestEachDatabaseHasTheSameOrderOfValues(t *testing.T) {
	type ranked struct {
		name string
		rank query.Rank
	}
	each(t, func(t *testing.T, s *Store) {
		stream := openStream(t, s, "east", pods)
		var changes []Change
		var want []ranked
		for i, value := range append(valuesInOrder(), nil, true, map[string]any{}, []any{1}) {
			text, err := json.Marshal(map[string]any{"metadata": map[string]any{"name": fmt.Sprintf("%03d", i), "namespace": "a"}, "spec": map[string]any{"value": value}})
			require.NoError(t, err)
			o := Object{Namespace: "a", Name: fmt.Sprintf("%03d", i), UID: fmt.Sprint(i), JSON: text}
			changes = append(changes, Change{Object: o})
			want = append(want, ranked{o.Name, (&query.Subject{JSON: text}).RankAt([]query.Step{{Name: "spec"}, {Name: "value"}})})
		}
		require.NoError(t, s.Write(t.Context(), stream, Batch{Changes: changes}))
		slices.SortStableFunc(want, func(a, b ranked) int {
			return cmp.Or(cmp.Compare(a.rank.Number, b.rank.Number), strings.Compare(a.rank.Text, b.rank.Text))
		})
		found, _ := names(t, s, query.Query{Order: []query.Order{{Path: []query.Step{{Name: "spec"}, {Name: "value"}}}}}, pods)
		for i := range want {
			assert.Equal(t, "east/a/"+want[i].name, found[i], "place %d: %.40q", i, want[i].rank.Text)
		}
	})
}

func valuesInOrder() (values []any) {
	for _, text := range slices.Concat(fieldValues, sortedValues, fieldNumbers) {
		values = append(values, text)
	}
	for _, number := range fieldNumbers {
		values = append(values, json.Number(number))
	}
	return values
}
