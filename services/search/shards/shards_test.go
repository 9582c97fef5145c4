// Copyright The Tripod Authors.
// SPDX-License-Identifier: Apache-2.0

package shards

import (
	"context"
	"strconv"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/tripod-k8s/tripod/services/search/store"
	"github.com/tripod-k8s/tripod/services/search/store/storetest"
)

func TestAReplicaThatComesMovesOnlyItsShare(t *testing.T) {
	three, four := []string{"a", "b", "c"}, []string{"a", "b", "c", "d"}
	counts := map[string]int{}
	for i := range 2000 {
		work := "cluster " + strconv.Itoa(i)
		before, after := ownerOf(work, three), ownerOf(work, four)
		if after != "d" {
			assert.Equal(t, before, after, work)
		}
		counts[after]++
	}
	for _, replica := range four {
		assert.InDelta(t, 500, counts[replica], 100, replica)
	}
}

func TestWhoIsAlive(t *testing.T) {
	type step struct {
		after time.Duration
		beats map[string]int64
		want  []string // nil: not known yet
		gone  []string
	}
	second := time.Second
	for name, steps := range map[string][]step{
		"alone at once": {{0, map[string]int64{"me": 1}, []string{"me"}, nil}},
		"another one is seen to live": {
			{0, map[string]int64{"me": 1, "b": 7}, nil, nil},
			{2 * second, map[string]int64{"me": 2, "b": 8}, []string{"b", "me"}, nil},
		},
		"a dead one is waited for": {
			{0, map[string]int64{"me": 1, "b": 7}, nil, nil},
			{2 * second, map[string]int64{"me": 2, "b": 7}, nil, nil},
			{4 * second, map[string]int64{"me": 3, "b": 7}, []string{"me"}, nil},
			{62 * second, map[string]int64{"me": 4, "b": 7}, []string{"me"}, []string{"b"}},
		},
		"one that comes later lives": {
			{0, map[string]int64{"me": 1}, []string{"me"}, nil},
			{2 * second, map[string]int64{"me": 2, "b": 1}, []string{"b", "me"}, nil},
		},
		"one that goes is not waited for": {
			{0, map[string]int64{"me": 1}, []string{"me"}, nil},
			{2 * second, map[string]int64{"me": 2, "b": 1}, []string{"b", "me"}, nil},
			{4 * second, map[string]int64{"me": 3}, []string{"me"}, nil},
		},
		"one that dies is missed": {
			{0, map[string]int64{"me": 1}, []string{"me"}, nil},
			{2 * second, map[string]int64{"me": 2, "b": 1}, []string{"b", "me"}, nil},
			{9 * second, map[string]int64{"me": 3, "b": 1}, []string{"b", "me"}, nil},
			{10 * second, map[string]int64{"me": 4, "b": 1}, []string{"me"}, nil},
			{11 * second, map[string]int64{"me": 5, "b": 2}, []string{"b", "me"}, nil},
			{80 * second, map[string]int64{"me": 6, "b": 2}, []string{"me"}, []string{"b"}},
		},
	} {
		t.Run(name, func(t *testing.T) {
			s := &Shards{self: "me", Timing: Standard}
			began := time.Now()
			for _, step := range steps {
				gone := s.look(step.beats, began.Add(step.after))
				assert.Equal(t, step.gone, gone, "gone after %s", step.after)
				assert.Equal(t, step.want, s.alive, "alive after %s", step.after)
			}
		})
	}
}

// quick is for tests on a machine that may be busy: a replica is missed late.
var quick = Timing{Beat: 10 * time.Millisecond, FirstLook: 2 * time.Second, Dead: 5 * time.Second, Forget: time.Hour}

func TestReplicasShareTheWork(t *testing.T) {
	s, err := store.Open(storetest.SQLite(t))
	require.NoError(t, err)
	t.Cleanup(func() { s.Close() })
	require.NoError(t, s.Migrate(t.Context()))
	start := func() (*Shards, func()) {
		one, err := New(s, quick)
		require.NoError(t, err)
		assert.False(t, one.Mine("x"), "it does not know the others yet")
		ctx, cancel := context.WithCancel(context.Background())
		done := make(chan struct{})
		go func() {
			defer close(done)
			one.Run(ctx)
		}()
		stop := func() { cancel(); <-done }
		t.Cleanup(stop)
		return one, stop
	}
	shared := func(a, b *Shards) bool {
		for i := range 50 {
			if a.Mine(strconv.Itoa(i)) == b.Mine(strconv.Itoa(i)) {
				return false
			}
		}
		return !a.Alone() && !b.Alone()
	}
	first, stop := start()
	require.Eventually(t, first.Alone, time.Minute, time.Millisecond)
	changed := first.Changed()
	second, _ := start()
	require.Eventually(t, func() bool { return shared(first, second) }, time.Minute, time.Millisecond)
	<-changed
	stop()
	require.Eventually(t, second.Alone, time.Minute, time.Millisecond)
	assert.True(t, second.Mine("x"))
	assert.True(t, (*Shards)(nil).Mine("x"), "without others")
}
