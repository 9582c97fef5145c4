// Copyright The Tripod Authors.
// SPDX-License-Identifier: Apache-2.0

package store

import (
	"context"
	"strconv"
	"sync"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/tripod-k8s/tripod/services/search/store/streams"
)

func TestReplicasSeeEachOther(t *testing.T) {
	each(t, func(t *testing.T, s *Store) {
		for _, replica := range []string{"a", "b", "a"} {
			_, err := s.Beat(t.Context(), replica)
			require.NoError(t, err)
		}
		beats, err := s.Beat(t.Context(), "b")
		require.NoError(t, err)
		assert.Equal(t, map[string]int64{"a": 2, "b": 2}, beats)
		require.NoError(t, s.RemoveReplicas(t.Context(), "a", "c"))
		beats, err = s.Beat(t.Context(), "b")
		require.NoError(t, err)
		assert.Equal(t, map[string]int64{"b": 3}, beats)
	})
}

// TestManyTellAtOnce holds that no replica fails because others write, or beat for the first time, at the same time.
func TestManyTellAtOnce(t *testing.T) {
	each(t, func(t *testing.T, s *Store) {
		var group sync.WaitGroup
		for i := range 20 {
			cluster := strconv.Itoa(i)
			stream := openStream(t, s, cluster, pods)
			group.Go(func() {
				_, err := s.Beat(context.Background(), cluster)
				assert.NoError(t, err)
				for range 10 {
					assert.NoError(t, s.SaveStatus(context.Background(), stream, "well"))
				}
			})
		}
		group.Wait()
	})
}

func TestOthersKnowWhatAWriterTells(t *testing.T) {
	each(t, func(t *testing.T, s *Store) {
		ctx := t.Context()
		former, other := openStream(t, s, "one", pods), openStream(t, s, "one", nodes)
		require.NoError(t, s.SaveStatus(ctx, former, "early"))
		require.NoError(t, s.SaveStatus(ctx, other, "well"))
		now := openStream(t, s, "one", pods)
		require.NoError(t, s.SaveStatus(ctx, now, "late"))
		require.NoError(t, s.SaveStatus(ctx, now, "later"))
		require.ErrorIs(t, s.SaveStatus(ctx, former, "wrong"), streams.ErrFenced)
		received := func() map[string]string {
			all, err := s.StreamStatuses(ctx, "one")
			require.NoError(t, err)
			states := map[string]string{}
			for _, one := range all {
				states[one.Kind.Resource+" "+one.Kind.Name] = string(one.Status)
			}
			return states
		}
		assert.Equal(t, map[string]string{"nodes Node": `"well"`, "pods Pod": `"later"`}, received())
		require.NoError(t, s.CloseStream(ctx, other))
		assert.Equal(t, map[string]string{"pods Pod": `"later"`}, received())
	})
}
