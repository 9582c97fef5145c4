// Copyright The Tripod Authors.
// SPDX-License-Identifier: Apache-2.0

package store

import (
	"fmt"
	"strconv"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"golang.org/x/sync/errgroup"

	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/tripod-k8s/tripod/services/search/query"
	"github.com/tripod-k8s/tripod/services/search/store/storetest"
)

// TestAPoolerOfTransactions searches and writes behind a pooler, whose connections do not know the statements of the transaction before.
func TestAPoolerOfTransactions(t *testing.T) {
	s := opened(t, storetest.PgBouncer(t, databases.New(t, "postgres")))
	var group errgroup.Group
	for writer := range 4 {
		stream := openStream(t, s, fmt.Sprintf("cluster-%d", writer), pods)
		group.Go(func() error {
			for i := range 20 {
				batch := Batch{Changes: []Change{{Object: object("a", fmt.Sprint("x", i), "1")}}, ResourceVersion: strconv.Itoa(i)}
				if err := s.Write(t.Context(), stream, batch); err != nil {
					return err
				}
			}
			return nil
		})
	}
	for range 8 {
		group.Go(func() error {
			for range 20 {
				q := query.Query{Limit: 10}
				_, err := s.List(t.Context(), []schema.GroupVersionResource{pods.GroupVersionResource}, &q, func(Found) error { return nil })
				if err != nil {
					return err
				}
			}
			return nil
		})
	}
	require.NoError(t, group.Wait())
	found, _ := names(t, s, query.Query{}, pods)
	assert.Len(t, found, 80)
}
