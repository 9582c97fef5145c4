// Copyright The Tripod Authors.
// SPDX-License-Identifier: Apache-2.0

package live

import (
	"encoding/json"
	"fmt"
	"runtime"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/tripod-k8s/tripod/admin/view"
	"github.com/tripod-k8s/tripod/local/process"
	"github.com/tripod-k8s/tripod/local/up"
)

// sixtyReplicas returns the observation of an instance with 60 replicas in a second, as JSON. Two are aggregators, and one of the others
// changes its state.
func sixtyReplicas(t testing.TB, now time.Time, second int) []byte {
	const aggregators, others, bounds = 2, 58, 12
	o := up.Observation{Time: now, LastEvent: int64(second)}
	for n := range aggregators + others {
		component := "aggregator"
		if n >= aggregators {
			component = []string{"core", "extensions"}[n%2]
		}
		o.Processes = append(o.Processes, process.Status{
			Component: component, Replica: fmt.Sprintf("%s-%d", component, n), PID: n + 1, Address: fmt.Sprintf("https://127.0.0.1:%d", 20000+n),
			Ready: true, Version: "v1.37.2", StartTime: now.Add(-time.Hour), CPUSeconds: float64(second), ResidentMemoryBytes: 200 << 20,
		})
	}
	changed := &o.Processes[aggregators+second%others]
	o.Events = []up.Event{{
		Number: int64(second), Time: now, Component: changed.Component, Replica: changed.Replica, Type: process.NotReady, Text: "not ready any more: waits for etcd",
	}}
	for a := range aggregators {
		seen := view.Aggregator{Address: o.Processes[a].Address, Time: now, Connections: 100}
		for n := range others {
			p := &o.Processes[aggregators+n]
			count := second * (n + 1)
			r := view.Replica{
				Backend: p.Component, Endpoint: strings.TrimPrefix(p.Address, "https://"), State: "serving", Requests: int64(count), InFlight: 3, Watches: 40,
				Timed: uint64(count),
			}
			if p == changed {
				r.State = "unready"
			}
			for k := range bounds {
				r.Durations = append(r.Durations, view.Duration{Bound: float64(k + 1), Count: uint64(count)})
			}
			seen.Replicas = append(seen.Replicas, r)
		}
		o.Aggregators = append(o.Aggregators, seen)
	}
	encoded, err := json.Marshal(o)
	require.NoError(t, err)
	return encoded
}

// BenchmarkSixtyReplicas measures what a second costs the console while the page of services shows 60 replicas, and what it keeps after the
// 15 minutes that its timeline covers.
func BenchmarkSixtyReplicas(b *testing.B) {
	now := time.Now()
	f := New(nil)
	step := func(second int) {
		o := &up.Observation{}
		require.NoError(b, json.Unmarshal(sixtyReplicas(b, now.Add(time.Duration(second)*time.Second), second), o))
		f.paint(o, true)
	}
	inUse := func() uint64 {
		var memory runtime.MemStats
		runtime.GC()
		runtime.GC() // what pools have kept
		runtime.ReadMemStats(&memory)
		return memory.HeapAlloc
	}
	before := inUse()
	second := 0
	for ; second < int(Covers/time.Second); second++ {
		step(second)
	}
	kept := inUse() - before
	answer := sixtyReplicas(b, now.Add(time.Duration(second)*time.Second), second)
	for b.Loop() {
		o := &up.Observation{}
		require.NoError(b, json.Unmarshal(answer, o))
		f.paint(o, true)
	}
	b.ReportMetric(float64(kept)/1024, "KiB-kept")
	b.ReportMetric(float64(len(answer))/1024, "KiB-read")
}
