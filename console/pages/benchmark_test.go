// Copyright The Tripod Authors.
// SPDX-License-Identifier: Apache-2.0

package pages

import (
	"bytes"
	"fmt"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/tripod-k8s/tripod/console/live"
)

// sixtyReplicas is the picture of 60 replicas, each of which has changed once a minute.
func sixtyReplicas(now time.Time) *live.Picture {
	known := func(value float64) live.Number { return live.Number{Value: value, Known: true} }
	p := &live.Picture{At: now, Rate: known(1234), Connections: known(100), Since: now}
	for _, service := range []string{"aggregator", "core", "extensions", "etcd"} {
		s := live.Service{Name: service, Rate: known(300), Serving: 15}
		for n := range 15 {
			r := live.Replica{
				Service: service, Name: fmt.Sprintf("%s-%d", service, n), Address: fmt.Sprintf("https://127.0.0.1:%d", 20000+n), State: live.Serving,
				Rate: known(20), Share: known(0.07), InFlight: known(3), Watches: known(40), CPU: known(0.2), Memory: known(200 << 20), P99: known(0.01),
				Version: "v1.37.2", Started: now.Add(-time.Hour), Since: now.Add(-time.Minute),
			}
			lane := live.Lane{Replica: r.Name}
			for minute := range 15 {
				state := []live.State{live.Serving, live.Gone}[minute%2]
				lane.Spans = append(lane.Spans, live.Span{From: now.Add(time.Duration(minute-15) * time.Minute), State: state})
				p.Changes = append(p.Changes, live.Change{At: now, Replica: r.Name, Text: "not ready any more: waits for etcd"})
			}
			s.Replicas, p.Lanes = append(s.Replicas, r), append(p.Lanes, lane)
		}
		p.Services = append(p.Services, s)
	}
	return p
}

// BenchmarkSixtyReplicas measures how long the console makes the part of the page that it sends each second.
func BenchmarkSixtyReplicas(b *testing.B) {
	picture := sixtyReplicas(time.Now())
	size := 0
	for b.Loop() {
		var text bytes.Buffer
		require.NoError(b, templates["services"].ExecuteTemplate(&text, "live", newServicesPage(picture, picture.At)))
		size = len(visible(text.String()))
	}
	b.ReportMetric(float64(size)/1024, "KiB-sent")
}
