// Copyright The Tripod Authors.
// SPDX-License-Identifier: Apache-2.0

package database

import (
	"fmt"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/selection"

	"github.com/tripod-k8s/tripod/services/search/query"
)

func oneOfMany(t *testing.T, n int) labels.Requirement {
	t.Helper()
	values := make([]string, n)
	for i := range values {
		values[i] = fmt.Sprint("v", i)
	}
	r, err := labels.NewRequirement("app", selection.In, values)
	require.NoError(t, err)
	return *r
}

func TestTermsOfLabelsAreBounded(t *testing.T) {
	for name, test := range map[string]struct {
		kinds, values int
		indexed       bool
	}{
		"many values of a kind":      {1, query.MaxValues, true},
		"a value of many kinds":      {1000, 1, true},
		"many values of many kinds":  {1000, query.MaxValues, false},
		"some values of many kinds":  {1000, MaxTerms / 1000, true},
		"a value more of many kinds": {1000, MaxTerms/1000 + 1, false},
	} {
		t.Run(name, func(t *testing.T) {
			r, kinds := oneOfMany(t, test.values), make([]int64, test.kinds)
			s := SQL(postgres{}, "SELECT 1 FROM objects o WHERE 1 = 1")
			postgres{}.Label(s, r, kinds)
			bound := len(s.Values())
			for _, arg := range s.args {
				if list, ok := arg.([]string); ok {
					bound += len(list)
				}
			}
			assert.LessOrEqual(t, bound, MaxTerms+1)
			assert.Equal(t, test.indexed, strings.Contains(s.text.String(), "label_terms("))
			assert.Equal(t, test.indexed, postgres{}.FindsByTerms(r, test.kinds))
		})
	}
}
