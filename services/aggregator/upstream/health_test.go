// Copyright The Tripod Authors.
// SPDX-License-Identifier: Apache-2.0

package upstream

import (
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

func TestRank(t *testing.T) {
	tests := []struct {
		name   string
		health health
		want   rank
	}{
		{"new", health{}, rankUnprobed},
		{"ready", health{condition: ready}, rankServing},
		{"starting", health{condition: unready}, rankUnready},
		{"stopping", health{condition: ready, draining: true}, rankDraining},
		{"stopping, and saying that it is not ready", health{condition: unready, draining: true}, rankDraining},
		{"stopped", health{condition: refusing, draining: true}, rankRefusing},
		{"late", health{condition: busy}, rankBusy},
		{"late, and about to stop", health{condition: busy, draining: true}, rankDraining},
		{"held back", health{condition: ready, heldBack: true}, rankHeldBack},
		{"held back, and late", health{condition: busy, heldBack: true}, rankHeldBack},
		{"held back, and about to stop", health{condition: ready, heldBack: true, draining: true}, rankDraining},
		{"held back, and starting", health{condition: unready, heldBack: true}, rankUnready},
		{"held back, and requests do not get through", health{condition: ready, heldBack: true, ejected: true}, rankEjected},
		{"silent", health{condition: silent}, rankSilent},
		{"frozen", health{condition: silent, frozen: true}, rankFrozen},
		{"ready, but requests do not get through", health{condition: ready, ejected: true}, rankEjected},
		{"lost", health{condition: refusing, ejected: true}, rankRefusing},
		{"lost before it was probed", health{ejected: true}, rankEjected},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			assert.Equal(t, test.want, test.health.rank())
		})
	}
}

// clock returns a time of day.
func clock(seconds float64) time.Time {
	return time.Date(2026, 1, 1, 12, 0, 0, int(seconds*1e9), time.UTC)
}

func TestEjection(t *testing.T) {
	type step struct {
		at float64
		// do is the event: the result of a probe, "unreachable" or "broken".
		do   string
		want rank
	}
	findings := map[string]condition{"ready": ready, "unready": unready, "refusing": refusing, "silent": silent, "busy": busy}
	tests := []struct {
		name  string
		steps []step
	}{
		{"a connection that broke is a doubt until the next probe", []step{
			{0, "ready", rankServing}, {1, "broken", rankEjected}, {1.1, "ready", rankServing},
			{2, "broken", rankEjected}, {2.1, "ready", rankServing},
			{3, "broken", rankEjected}, {3.1, "ready", rankServing},
		}},
		{"a probe that was sent before says nothing", []step{
			{0, "ready", rankServing}, {1, "broken", rankEjected}, {1, "ready", rankEjected}, {1.5, "ready", rankServing},
		}},
		{"a lost replica comes back at once the first time, and later and later again", []step{
			{0, "ready", rankServing}, {1, "unreachable", rankEjected}, {1.1, "refusing", rankRefusing}, {1.5, "ready", rankServing},
			{2, "refusing", rankRefusing}, {2.5, "ready", rankEjected}, {3, "ready", rankServing},
			{4, "silent", rankSilent}, {5, "ready", rankEjected}, {6, "ready", rankServing},
			{7, "refusing", rankRefusing}, {10.9, "ready", rankEjected}, {11, "ready", rankServing},
		}},
		{"which is forgotten", []step{
			{0, "ready", rankServing}, {1, "refusing", rankRefusing}, {2, "ready", rankServing},
			{3, "refusing", rankRefusing}, {3.5, "ready", rankEjected}, {4, "ready", rankServing},
			{64, "refusing", rankRefusing}, {64.5, "ready", rankServing},
		}},
		{"one that is not ready, now and then, is back when it is", []step{
			{0, "ready", rankServing}, {1, "unready", rankUnready}, {2, "ready", rankServing},
			{3, "unready", rankUnready}, {4, "ready", rankServing}, {5, "unready", rankUnready}, {6, "ready", rankServing},
		}},
		{"one that is late keeps its last state, and comes back at once", []step{
			{0, "busy", rankSilent}, {1, "ready", rankServing}, {2, "busy", rankBusy}, {3, "ready", rankServing}, {4, "busy", rankBusy}, {5, "ready", rankServing},
			{6, "unready", rankUnready}, {7, "busy", rankUnready}, {8, "ready", rankServing},
			{9, "silent", rankSilent}, {10, "busy", rankEjected}, {11, "ready", rankServing}, {12, "refusing", rankRefusing}, {13, "busy", rankSilent},
		}},
		{"many failures at the same time are one", []step{
			{0, "ready", rankServing}, {1, "unreachable", rankEjected}, {1, "unreachable", rankEjected}, {1, "broken", rankEjected},
			{1.1, "ready", rankServing},
		}},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			var h health
			for _, step := range test.steps {
				if c, isProbe := findings[step.do]; isProbe {
					h.observe(finding{condition: c}, clock(step.at), clock(step.at))
				} else {
					h.eject(clock(step.at), step.do == "unreachable")
				}
				require.Equal(t, step.want, h.rank(), "after %q at %v", step.do, step.at)
			}
		})
	}
}

func TestBackOffIsBounded(t *testing.T) {
	var h health
	for i := range 100 {
		now := clock(float64(i))
		h.strike(now)
		if wait := h.notBefore.Sub(now); wait > maxBackOff {
			t.Fatalf("after %d strikes it waits %s", i+1, wait)
		}
	}
}
