// Copyright The Tripod Authors.
// SPDX-License-Identifier: Apache-2.0

package e2esuite

import (
	"testing"
	"time"

	"github.com/onsi/ginkgo/v2/types"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

const one, two, three = "[sig-apps] one", "[sig-apps] two", "[sig-node] three"

func passed(attempts int) Result {
	return Result{State: types.SpecStatePassed, Attempts: attempts, Took: 2 * time.Second}
}

func failed(attempts int, why string) Result {
	return Result{State: types.SpecStateFailed, Attempts: attempts, Took: time.Second, Failure: why}
}

func open(t *testing.T, dir string) *Kept {
	t.Helper()
	k, err := OpenKept(dir, "stock", "v1", "")
	require.NoError(t, err)
	return k
}

func TestAnInterruptedRunKeepsWhatEnded(t *testing.T) {
	dir, wanted := t.TempDir(), []string{one, two, three}
	k := open(t, dir)
	for name, outcome := range map[string]string{
		one: "[2.000 seconds]", two: "[FAILED] [1.000 seconds]", three: "[INTERRUPTED] [1.000 seconds]", "[sig-node] not asked for": "[1.000 seconds]",
	} {
		k.Ended(Ended{Name: name, Outcome: outcome}, wanted)
		require.NoError(t, k.Err)
	}
	again := open(t, dir)
	assert.Equal(t, map[string]Result{one: passed(1), two: failed(0, "")}, again.Results)
	assert.Equal(t, []string{two, three}, again.Missing(wanted))
	assert.Equal(t, []string{three}, again.Unknown(wanted))
	assert.Equal(t, Results{one: passed(1)}, again.Of([]string{one, three}))
}

func TestAttemptsCountOverRuns(t *testing.T) {
	dir, wanted := t.TempDir(), []string{one, two}
	k := open(t, dir)
	k.Ended(Ended{Name: one, Outcome: "[FAILED] [1.000 seconds]"}, wanted)
	require.NoError(t, k.Add(Results{one: failed(1, "why"), two: passed(1)}))
	assert.Equal(t, failed(1, "why"), k.Results[one])

	again := open(t, dir)
	again.Ended(Ended{Name: one, Outcome: "[2.000 seconds]"}, wanted)
	require.NoError(t, again.Add(Results{one: passed(1)}))
	after := passed(2)
	after.Failure = "why" // of the attempt before
	assert.Equal(t, map[string]Result{one: after, two: passed(1)}, open(t, dir).Results)
}

func TestASpecThatTheEndOfTheRunInterruptedHasNoResult(t *testing.T) {
	k := open(t, t.TempDir())
	require.NoError(t, k.Add(Results{
		one: {State: types.SpecStateTimedout, Failure: "A suite timeout occurred"}, two: {State: types.SpecStateInterrupted},
		three: {State: types.SpecStateTimedout, Failure: "A node timeout occurred", Attempts: 1},
	}))
	assert.Equal(t, []string{one, two}, k.Unknown([]string{one, two, three}))
}
