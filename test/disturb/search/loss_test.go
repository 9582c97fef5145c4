// Copyright The Tripod Authors.
// SPDX-License-Identifier: Apache-2.0

package search

import (
	"context"
	"fmt"
	"math/rand/v2"
	"os"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/tripod-k8s/tripod/test/framework"
)

// compareInterval is the time between two comparisons while things fail.
const compareInterval = 3 * time.Minute

// parameters returns how long things fail at random, and the seed: LOSS=30m, LOSS_SEED=1. By default, some faults happen once.
func parameters(t *testing.T) (length time.Duration, seed uint64) {
	t.Helper()
	var err error
	if text, ok := os.LookupEnv("LOSS"); ok {
		length, err = time.ParseDuration(text)
		require.NoError(t, err, "LOSS should be a duration, such as 30m")
	}
	seed = uint64(rand.Uint32())
	if text, ok := os.LookupEnv("LOSS_SEED"); ok {
		seed, err = strconv.ParseUint(text, 10, 64)
		require.NoError(t, err, "LOSS_SEED should be a number")
	}
	return length, seed
}

func TestNothingIsLost(t *testing.T) {
	length, seed := parameters(t)
	t.Logf("the seed is %d", seed)
	random := rand.New(rand.NewPCG(seed, 0))
	s := start(t)
	s.awaitEqual(t)
	s.countLists(t)
	s.remember(t)
	t.Logf("all is copied %.1f s after the start", time.Since(s.began).Seconds())

	writing, stop := context.WithCancel(t.Context())
	writers := s.write(writing, seed)
	began, compared := time.Now(), time.Now()
	for n := 0; n < len(shortRounds) || time.Since(began) < length; n++ {
		faults := s.someFaults(random)
		if n < len(shortRounds) {
			faults = s.faultsNamed(shortRounds[n])
		}
		s.round(t, n, faults, random)
		if time.Since(compared) > compareInterval {
			writers.pause()
			s.awaitEqual(t)
			s.replayHistory(t)
			s.remember(t)
			writers.resume()
			compared = time.Now()
		}
	}
	stop()
	writers.wait()
	hashes := s.awaitEqual(t)
	s.replayHistory(t)
	t.Logf("%d faults in %s: %s", s.caused(), time.Since(began).Round(time.Second), s.faultCounts())
	t.Log(writers.String())
	t.Log(behindOf(s.behind))
	for _, hash := range hashes {
		t.Log(hash)
	}
	s.judgeLists(t)
}

// behindOf describes how long search needed to have all again after faults.
func behindOf(times []time.Duration) string {
	slices.Sort(times)
	return fmt.Sprintf("search had the next change of each cluster %.1f s (median) after the last fault of a round was over, and after %.1f s at most",
		times[len(times)/2].Seconds(), times[len(times)-1].Seconds())
}

// round has some things fail at once, and returns when search has what the clusters have had since.
func (s *scene) round(t *testing.T, n int, faults []fault, random *rand.Rand) {
	t.Helper()
	var names []string
	errs := make(chan error, len(faults))
	for _, f := range faults {
		names = append(names, f.name)
		s.counts[f.group]++
		own := rand.New(rand.NewPCG(random.Uint64(), 0))
		go func() { errs <- f.cause(t.Context(), own) }()
	}
	for range faults {
		require.NoError(t, <-errs)
	}
	over := time.Now()
	for name, m := range s.members {
		await(t, "cluster "+name+" takes a mark", func(ctx context.Context) error { return m.mark(ctx, n) })
	}
	await(t, "search has the marks", func(ctx context.Context) error {
		if err := s.replicasRun(); err != nil {
			return err
		}
		found, err := value[int](ctx, s.db, "SELECT COUNT(*) FROM objects WHERE name = '"+markOf(n)+"'")
		if err == nil && found < len(s.members) {
			err = fmt.Errorf("%d of %d", found, len(s.members))
		}
		return err
	})
	s.behind = append(s.behind, time.Since(over))
	t.Logf("round %d: %s; search had all %.1f s after", n, strings.Join(names, ", "), time.Since(over).Seconds())
}

// waitAttempts is how often a wait that fails is begun again. It only ends a wait that would never end.
const waitAttempts = 5

func await(t *testing.T, what string, condition func(context.Context) error) {
	t.Helper()
	var err error
	for range waitAttempts {
		if err = framework.Poll(t.Context(), what, condition); err == nil {
			return
		}
	}
	require.NoError(t, err)
}

// awaitEqual returns when all tables follow from the clusters, and what they have.
func (s *scene) awaitEqual(t *testing.T) (hashes []string) {
	t.Helper()
	await(t, "the tables equal the objects of the clusters", func(ctx context.Context) error {
		want, err := s.wanted(ctx)
		if err != nil {
			return err
		}
		got, err := s.stored(ctx)
		if err != nil {
			return err
		}
		hashes = hashesOf(got)
		return difference(want, got)
	})
	return hashes
}

// countLists notes how often clusters were listed until all was copied.
func (s *scene) countLists(t *testing.T) {
	t.Helper()
	for _, name := range []string{steady, shaken} {
		m := s.members[name]
		var err error
		m.lists, err = listsOf(m.auditLog)
		require.NoError(t, err)
		require.GreaterOrEqual(t, len(m.lists), len(copied), "the first lists are in the audit log")
	}
}

// judgeLists holds that a cluster whose API server did not fail is not listed again, whatever else fails.
func (s *scene) judgeLists(t *testing.T) {
	t.Helper()
	for _, name := range []string{steady, shaken} {
		m := s.members[name]
		lists, err := listsOf(m.auditLog)
		require.NoError(t, err)
		t.Logf("cluster %s was listed %d times after the first copy by %d streams, and its API server was killed %d times", name, len(lists)-len(m.lists), len(copied), m.killed)
		if name == steady {
			assert.Equal(t, m.lists, lists, "search goes on where it was, as long as the cluster remembers that")
		}
	}
}
