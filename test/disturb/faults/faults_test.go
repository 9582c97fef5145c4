// Copyright The Tripod Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"slices"
	"strings"
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

// TestRowsNameWhatCompares checks the last column, for the same fault and for another one.
func TestRowsNameWhatCompares(t *testing.T) {
	failed := func(failed, sent int) map[string]count {
		return map[string]count{"reads": {Sent: sent, Failed: failed}, "writes": {Sent: 10}}
	}
	r := &report{Results: []result{
		{Fault: "kill one aggregator", Side: tripod, Requests: failed(9, 90)},
		{Fault: "kill one aggregator", Side: stock, Requests: failed(1, 30), FailedUntil: 2 * time.Second},
		{Fault: "kill one core", Side: tripod, Requests: failed(3, 50)},
		{Fault: "kill one core", Side: singleTripod, Requests: failed(5, 50)},
	}}
	table := r.table("kill")
	for _, row := range []string{
		"| kill one aggregator | Tripod | 9 of 90 |", "| kill one core | Tripod | 3 of 50 |", "| kill one core | single Tripod | 5 of 50 |", "| kill one aggregator | kube-apiserver | 1 of 30 |",
	} {
		_, rest, found := strings.Cut(table, row)
		require.True(t, found, "%s\n%s", row, table)
		rest, _, _ = strings.Cut(rest, "\n")
		want := "| 1 of 40, 2.0 s |"
		if strings.Contains(row, "single") || strings.Contains(row, "kube-apiserver") {
			want = "| – |"
		}
		require.True(t, strings.HasSuffix(rest, want), "%s%s", row, rest)
	}
}

// TestFaultsCompareWithFaults finds mistakes in names.
func TestFaultsCompareWithFaults(t *testing.T) {
	for _, f := range faults() {
		if f.like != "" {
			assert.True(t, slices.ContainsFunc(faults(), func(other fault) bool { return other.name == f.like && slices.Contains(other.sides, stock) }), "%s: %s", f.name, f.like)
		}
	}
}
