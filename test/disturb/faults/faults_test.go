// Copyright The Tripod Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// TestNothingIsLost is the short form: whatever breaks, Tripod recovers, all acknowledged writes are there, and no right is in force for
// longer than docs/threat-model.md says. How many requests fail, and for how long, is not its matter.
func TestNothingIsLost(t *testing.T) {
	c, err := startCluster(t.Context(), sideOf(tripod))
	require.NoError(t, err)
	t.Cleanup(func() { assert.NoError(t, c.close(t.Failed())) })
	for i, f := range faults() {
		if !f.short {
			continue
		}
		t.Run(f.name, func(t *testing.T) {
			if reason := f.leftOut(c.machine); reason != "" {
				t.Skip(reason)
			}
			r, err := c.try(t.Context(), f, i, 3*time.Second)
			require.NoError(t, err)
			t.Log(r)
			assert.Empty(t, r.wrong())
		})
		if t.Failed() {
			return // what follows would begin with what is broken
		}
	}
}

// TestResultsAreJudged is about what makes the command fail.
func TestResultsAreJudged(t *testing.T) {
	bound := map[string]time.Duration{byRight: time.Second}
	for _, test := range []struct {
		name   string
		result result
		wrong  int
	}{
		{"nothing happened", result{}, 0},
		{"it took long", result{Recovered: time.Minute, Noticed: time.Minute, Restarts: 3}, 0},
		{"it did not recover", result{NotRecovered: "a reason"}, 1},
		{"two writes are lost", result{Lost: []string{"a", "b"}}, 2},
		{"a right lived as long as it may", result{Bound: bound, Stale: map[string]time.Duration{byRight: time.Second}}, 0},
		{"a right lived too long", result{Bound: bound, Stale: map[string]time.Duration{byRight: 2 * time.Second}}, 1},
	} {
		t.Run(test.name, func(t *testing.T) {
			assert.Len(t, test.result.wrong(), test.wrong)
		})
	}
}
