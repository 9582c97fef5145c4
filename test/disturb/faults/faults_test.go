// Copyright The Tripod Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// TestNothingIsLost is the short form. After each fault Tripod must recover, keep all acknowledged writes, and have ended rights in time
// (docs/threat-model.md). It does not judge how many requests fail, or for how long.
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
			return // later faults would start on a broken cluster
		}
	}
}

// TestResultsAreJudged tests what makes the command fail.
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
