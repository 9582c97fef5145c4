// Copyright The Tripod Authors.
// SPDX-License-Identifier: Apache-2.0

package wakeups

import (
	"bytes"
	"encoding/json"
	"runtime/trace"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// TestEachWakeUpIsCounted traces goroutines that wait for each other a known number of times.
func TestEachWakeUpIsCounted(t *testing.T) {
	const times = 100
	var data bytes.Buffer
	require.NoError(t, trace.Start(&data))
	ask, answer := make(chan int), make(chan int)
	go func() {
		for n := range ask {
			answer <- n
		}
		close(answer)
	}()
	for n := range times {
		ask <- n
		require.Equal(t, n, <-answer)
	}
	close(ask)
	<-answer
	trace.Stop()

	counts, err := Read(&data)
	require.NoError(t, err)
	var started, woken float64
	for of, n := range counts.Woken {
		if !strings.Contains(of.Function, "TestEachWakeUpIsCounted") {
			continue
		}
		if of.Waited == Started {
			started += n
		} else {
			woken += n
		}
	}
	require.InDelta(t, 1, started, 0)
	require.GreaterOrEqual(t, woken, float64(times), "each question wakes at least one of the two: %v", counts.Woken)
	require.LessOrEqual(t, woken, float64(4*times), "%v", counts.Woken)
	require.GreaterOrEqual(t, counts.Total(), started+woken)
}

func TestWhatAnIdleProcessDoesIsTakenOff(t *testing.T) {
	reader, timer := Goroutines{"serve", "network"}, Goroutines{"tick", "sleep"}
	busy := &Counts{Processors: 30, Woken: map[Goroutines]float64{reader: 50, timer: 11}}
	idle := &Counts{Processors: 20, Woken: map[Goroutines]float64{timer: 20}}
	require.Equal(t, &Counts{Processors: 20, Woken: map[Goroutines]float64{reader: 50, timer: 1}}, busy.Minus(idle, 2))
}

func TestCountsAreJSON(t *testing.T) {
	data, err := json.Marshal(&Counts{Processors: 3, Woken: map[Goroutines]float64{{"serve", "network"}: 50}})
	require.NoError(t, err)
	require.JSONEq(t, `{"Processors":3,"Woken":{"serve: network":50}}`, string(data))
}

func TestOnlyTracesAreRead(t *testing.T) {
	_, err := Read(strings.NewReader(`{"kind":"Status"}`))
	require.ErrorContains(t, err, "not an execution trace")
}
