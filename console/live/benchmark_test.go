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

// inUse returns the bytes of the heap that a garbage collection leaves.
func inUse() uint64 {
	var memory runtime.MemStats
	runtime.GC()
	runtime.GC() // what pools have kept
	runtime.ReadMemStats(&memory)
	return memory.HeapAlloc
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

// viewOf returns the metrics of an aggregator that sees replicas, one of which changes its state each second.
func viewOf(replicas, second int) string {
	var text strings.Builder
	line := func(metric, replica, labels string, value int) {
		fmt.Fprintf(&text, "tripod_backend_%s{backend=\"core\",endpoint=%q%s} %d\n", metric, replica, labels, value)
	}
	each := func(kind, metric string, use func(n int, replica string)) {
		fmt.Fprintf(&text, "# TYPE tripod_backend_%s %s\n", metric, kind)
		for n := range replicas {
			use(n, fmt.Sprintf("192.0.2.1:%d", 20000+n))
		}
	}
	each("gauge", "endpoint_state", func(n int, replica string) {
		state := []string{"serving", "ejected"}[second/max(1, replicas/60)%2*min(1, n%60)]
		line("endpoint_state", replica, fmt.Sprintf(",state=%q", state), 1)
	})
	each("counter", "requests_total", func(n int, replica string) { line("requests_total", replica, `,code="2xx"`, second*n) })
	each("gauge", "in_flight", func(_ int, replica string) { line("in_flight", replica, `,kind="short"`, 3) })
	each("histogram", "request_duration_seconds", func(n int, replica string) {
		for bound := range 12 {
			line("request_duration_seconds_bucket", replica, fmt.Sprintf(",le=\"%d\"", bound), second*n)
		}
		line("request_duration_seconds_bucket", replica, `,le="+Inf"`, second*n)
		line("request_duration_seconds_count", replica, "", second*n)
	})
	fmt.Fprintf(&text, "process_start_time_seconds 1.79596322327e+09\nprocess_cpu_seconds_total %d\n", second)
	return text.String()
}

// BenchmarkViewOfAggregator measures what a question to an aggregator costs the console, and what it keeps for a session after the 15 minutes that
// its timeline covers.
func BenchmarkViewOfAggregator(b *testing.B) {
	for _, replicas := range []int{20, maxSeen} {
		b.Run(fmt.Sprint(replicas), func(b *testing.B) {
			now := time.Now()
			f := New(NewAggregator(nil))
			step := func(second int) {
				seen, err := view.Read(strings.NewReader(viewOf(replicas, second)))
				require.NoError(b, err)
				seen.Time = now.Add(time.Duration(second) * time.Second)
				f.paint(&up.Observation{Time: seen.Time, Aggregators: []view.Aggregator{*seen}}, true)
			}
			before := inUse()
			second := 0
			for ; second < int(Covers/time.Second); second += 2 {
				step(second)
			}
			kept := inUse() - before
			for b.Loop() {
				step(second)
			}
			b.ReportMetric(float64(kept)/1024, "KiB-kept")
			b.ReportMetric(float64(len(viewOf(replicas, second)))/1024, "KiB-read")
		})
	}
}
