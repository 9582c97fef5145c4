// Copyright The Tripod Authors.
// SPDX-License-Identifier: Apache-2.0

package console

import (
	"context"
	"fmt"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/chromedp/cdproto/cdp"
	"github.com/chromedp/cdproto/performance"
	"github.com/chromedp/chromedp"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/tripod-k8s/tripod/admin/view"
	served "github.com/tripod-k8s/tripod/console"
	"github.com/tripod-k8s/tripod/local/process"
	"github.com/tripod-k8s/tripod/local/up"
)

// manyReplicas is the source of an instance with two aggregators and 58 other replicas, one of which changes its state each second.
func manyReplicas() func(context.Context, int64) (*up.Observation, error) {
	const aggregators, others = 2, 58
	started := time.Now().Add(-time.Hour)
	var seconds atomic.Int64
	return func(context.Context, int64) (*up.Observation, error) {
		second := int(seconds.Add(1))
		o := &up.Observation{Time: time.Now(), LastEvent: int64(second)}
		for n := range aggregators + others {
			component := "aggregator"
			if n >= aggregators {
				component = []string{"core", "extensions"}[n%2]
			}
			o.Processes = append(o.Processes, process.Status{
				Component: component, Replica: fmt.Sprintf("%s-%d", component, n), PID: n + 1, Address: fmt.Sprintf("https://127.0.0.1:%d", 20000+n),
				Ready: true, Version: "v1.37.2", StartTime: started, CPUSeconds: float64(second) / 10, ResidentMemoryBytes: 200 << 20,
			})
		}
		for a := range aggregators {
			seen := view.Aggregator{Address: o.Processes[a].Address, Time: o.Time, Connections: 100}
			for n := range others {
				p := &o.Processes[aggregators+n]
				r := view.Replica{
					Backend: p.Component, Endpoint: strings.TrimPrefix(p.Address, "https://"), State: "serving",
					Requests: int64(second * (n + 1)), InFlight: 3, Watches: 40,
				}
				if n == second%others {
					r.State = "ejected"
				}
				seen.Replicas = append(seen.Replicas, r)
			}
			o.Aggregators = append(o.Aggregators, seen)
		}
		return o, nil
	}
}

// TestAPageOfManyReplicasStaysBounded has a page show 60 replicas, one of which changes each second, and logs what that costs the browser.
func TestAPageOfManyReplicasStaysBounded(t *testing.T) {
	path := requireChromium(t)
	ctx, stop := context.WithCancel(t.Context())
	server, err := served.Listen(ctx, served.Options{Config: fleet.Admin(), Used: func(string) {}, Instance: manyReplicas()})
	require.NoError(t, err)
	ended := make(chan error, 1)
	go func() { ended <- server.Serve(ctx) }()
	t.Cleanup(func() {
		stop()
		assert.NoError(t, <-ended)
	})
	b := openAt(t, path, server.Address())
	b.visit("services")
	assert.Equal(t, 60, evaluate[int](b, `document.querySelectorAll(".picture .replica").length`))
	b.renewed(3) // the cards have all numbers
	before := b.elements()
	began, busy := time.Now(), b.busy()
	const renewals = 15
	b.renewed(renewals)
	t.Logf("60 replicas: the browser was busy for %.1f %% of a processor", 100*(b.busy()-busy)/time.Since(began).Seconds())
	assert.Equal(t, 60, evaluate[int](b, `document.querySelectorAll(".picture .replica").length`))
	// Each change adds a line to a list that has an end, and perhaps a box.
	assert.Less(t, b.elements()-before, 5*2*renewals)
	b.shows("a replica changes", "#changes", containing("serving → ejected"))
	b.examine("many-replicas")
}

// renewed waits until the page was renewed some times.
func (b *browser) renewed(times int) {
	b.t.Helper()
	evaluate[chromedp.Void](b, fmt.Sprintf(`new Promise(done => {
		let left = %d
		new MutationObserver((_, observer) => { if (--left === 0) { observer.disconnect(); done() } })
			.observe(document.getElementById("live"), {attributeFilter: ["data-version"]})
	})`, times), chromedp.EvalAwaitPromise)
}

func (b *browser) elements() int {
	b.t.Helper()
	return evaluate[int](b, `document.querySelectorAll("*").length`)
}

// busy returns for how many seconds the page has been busy.
func (b *browser) busy() float64 {
	b.t.Helper()
	_, err := chromedp.Call(b.ctx, performance.Enable, performance.EnableParams{})
	require.NoError(b.t, err)
	got, err := chromedp.Call(b.ctx, performance.GetMetrics, cdp.Empty{})
	require.NoError(b.t, err)
	for _, metric := range got.Metrics {
		if metric.Name == "TaskDuration" {
			return metric.Value
		}
	}
	b.t.Fatal("the browser does not say for how long it was busy")
	return 0
}
