// Copyright The Tripod Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"bytes"
	"cmp"
	"context"
	_ "embed"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"net/http"
	"os"
	"slices"
	"strconv"
	"sync"
	"time"

	"github.com/tripod-k8s/tripod/lab/bench/load"
	"github.com/tripod-k8s/tripod/lab/bench/process"
	"github.com/tripod-k8s/tripod/lab/bench/table"
	"github.com/tripod-k8s/tripod/lab/bench/wakeups"
)

const (
	// slowly is how many requests a second are sent while wake-ups are counted: each finds a server that sleeps.
	slowly = 50
	// seldom is how often per request goroutines wake up that are not shown.
	seldom = 0.1
	// nothing is the name of no request. Its counts are those of a second.
	nothing = "nothing, for a second"
)

//go:embed benchmarks-wakeups.md.tmpl
var wakesPage string

// wakes are what wakes up on the way of one request, on one side.
type wakes struct {
	Side, Request string
	// Switches are the context switches per request, without a trace.
	Switches float64
	// Services has the counts per request of each service, less those of the service without requests.
	Services map[string]*wakeups.Counts
}

// countWakes shows what wakes up on the way of one small request on each side.
func (o *options) countWakes(ctx context.Context) error {
	var all []wakes
	for _, s := range o.sides {
		if s.Name == noise {
			continue
		}
		found, err := s.countWakes(ctx, o)
		if err != nil {
			return fmt.Errorf("%s: %w", s.Name, err)
		}
		all = append(all, found...)
	}
	slices.SortStableFunc(all, func(a, b wakes) int { return cmp.Compare(a.Request, b.Request) })
	if o.docs != "" {
		if err := table.WritePage(o.docs, wakesPage, map[string]any{
			"Date": time.Now().UTC().Format(time.DateOnly), "Machine": process.Machine(), "Versions": versions(), "Command": o.commandLine,
			"Tables": wakeTables(all), "Seconds": o.wakes.Seconds(), "PerSecond": slowly, "Seldom": seldom,
		}); err != nil {
			return err
		}
	}
	if o.json {
		data, err := json.MarshalIndent(all, "", "  ")
		if err == nil {
			_, err = fmt.Println(string(data))
		}
		return err
	}
	return table.Write(os.Stdout, wakeTables(all))
}

func (s side) countWakes(ctx context.Context, o *options) (all []wakes, err error) {
	f, err := s.open(ctx, []resource{configMaps}, nil)
	if err != nil {
		return nil, err
	}
	defer func() {
		f.failed = err != nil
		err = errors.Join(err, f.close())
	}()
	client, err := load.NewClient(f.configs[certificates], 1)
	if err != nil {
		return nil, err
	}
	defer client.Close()
	idle, err := f.idleWakes(ctx, o)
	if err != nil {
		return nil, err
	}
	all = append(all, idle)
	for _, name := range slices.Sorted(maps.Keys(smallRequests)) {
		o.logf("%s: %s", s.Name, name)
		do, err := smallRequests[name](ctx, f, client)
		if err != nil {
			return nil, fmt.Errorf("%s: %w", name, err)
		}
		one := wakes{Side: s.Name, Request: name}
		if one.Switches, err = f.switchesOf(ctx, o, do); err != nil {
			return nil, err
		}
		if one.Services, err = f.wakeUpsOf(ctx, o, do); err != nil {
			return nil, err
		}
		all = append(all, one)
	}
	return all, nil
}

// idleWakes returns what wakes up in a second without requests.
func (f *fixture) idleWakes(ctx context.Context, o *options) (wakes, error) {
	idle := wakes{Side: f.side.Name, Request: nothing}
	if err := pause(ctx, idleAfter); err != nil {
		return idle, err
	}
	switches, err := f.switchesDuring(func() error { return pause(ctx, o.wakes) })
	if err != nil {
		return idle, err
	}
	idle.Switches = switches / o.wakes.Seconds()
	if idle.Services, err = f.trace(ctx, o.wakes); err != nil {
		return idle, err
	}
	for _, counts := range idle.Services {
		counts.Divide(o.wakes.Seconds())
	}
	return idle, nil
}

// switchesOf returns the context switches that each call of do costs.
func (f *fixture) switchesOf(ctx context.Context, o *options, do load.Operation) (float64, error) {
	idle, err := f.switchesDuring(func() error { return pause(ctx, o.wakes) })
	if err != nil {
		return 0, err
	}
	var sent *load.Result
	busy, err := f.switchesDuring(func() error {
		sent = o.sendSlowly(ctx, do)
		return sent.Error
	})
	if err != nil {
		return 0, err
	}
	return (busy - idle) / float64(sent.Requests), nil
}

// switchesDuring returns the context switches of all servers while something happens.
func (f *fixture) switchesDuring(something func() error) (float64, error) {
	before, _, err := process.CountsOf(f.servers)
	if err != nil {
		return 0, err
	}
	if err := something(); err != nil {
		return 0, err
	}
	after, _, err := process.CountsOf(f.servers)
	return float64(after - before), err
}

func (o *options) sendSlowly(ctx context.Context, do load.Operation) *load.Result {
	return load.Offer(ctx, load.Offered{PerSecond: slowly, Duration: o.wakes, Workers: 1}, do)
}

// wakeUpsOf returns what wakes up in each service for each call of do.
func (f *fixture) wakeUpsOf(ctx context.Context, o *options, do load.Operation) (map[string]*wakeups.Counts, error) {
	idle, err := f.trace(ctx, o.wakes)
	if err != nil {
		return nil, err
	}
	var sent *load.Result
	sending := make(chan struct{})
	go func() {
		defer close(sending)
		sent = o.sendSlowly(ctx, do)
	}()
	busy, err := f.trace(ctx, o.wakes)
	<-sending
	if err = errors.Join(err, sent.Error); err != nil {
		return nil, err
	}
	for service, counts := range busy {
		counts = counts.Minus(idle[service], 1)
		counts.Divide(float64(sent.Requests))
		busy[service] = counts
	}
	return busy, nil
}

// trace counts what wakes up in each service for some time.
func (f *fixture) trace(ctx context.Context, duration time.Duration) (map[string]*wakeups.Counts, error) {
	counts := make([]*wakeups.Counts, len(f.servers))
	failures := make([]error, len(f.servers))
	var tracing sync.WaitGroup
	for i, server := range f.servers {
		tracing.Go(func() {
			var data []byte
			path := "/debug/pprof/trace?seconds=" + strconv.FormatFloat(duration.Seconds(), 'f', -1, 64)
			if data, failures[i] = ask(ctx, f.admin, server.Service, path); failures[i] == nil {
				counts[i], failures[i] = wakeups.Read(bytes.NewReader(data))
			}
		})
	}
	tracing.Wait()
	byService := map[string]*wakeups.Counts{}
	for i, server := range f.servers {
		byService[server.Service] = counts[i]
	}
	return byService, errors.Join(failures...)
}

// smallRequests are what most requests in a cluster are: a controller reads an object, a kubelet writes a status, and renews a lease.
var smallRequests = map[string]func(ctx context.Context, f *fixture, client *load.Client) (load.Operation, error){
	"GET a ConfigMap": func(_ context.Context, _ *fixture, client *load.Client) (load.Operation, error) {
		return func(ctx context.Context) error { return client.Do(ctx, configMaps.get(namespace, "get-0")) }, nil
	},
	"PATCH the status of a node": func(ctx context.Context, f *fixture, client *load.Client) (load.Operation, error) {
		if err := f.admin.Do(ctx, post("/api/v1/nodes", `{"metadata":{"name":"bench"}}`)); err != nil {
			return nil, err
		}
		return func(ctx context.Context) error {
			return client.Do(ctx, load.Request{
				Method: http.MethodPatch, Path: "/api/v1/nodes/bench/status", ContentType: "application/strategic-merge-patch+json",
				Body: fmt.Appendf(nil, `{"status":{"conditions":[{"type":"Ready","status":"True","message":"%d","lastHeartbeatTime":%q}]}}`,
					time.Now().UnixNano(), time.Now().UTC().Format(time.RFC3339)),
			})
		}, nil
	},
	"UPDATE a lease": func(ctx context.Context, f *fixture, client *load.Client) (load.Operation, error) {
		const path = "/apis/coordination.k8s.io/v1/namespaces/" + namespace + "/leases"
		answer, err := f.admin.Read(ctx, load.Request{Method: http.MethodPost, Path: path, Body: []byte(`{"metadata":{"name":"bench"}}`)})
		if err != nil {
			return nil, err
		}
		version := quotedAfter(answer, versionBefore)
		return func(ctx context.Context) error {
			answer, err := client.Read(ctx, load.Request{Method: http.MethodPut, Path: path + "/bench", Body: fmt.Appendf(nil,
				`{"metadata":{"name":"bench","resourceVersion":%q},"spec":{"holderIdentity":"bench","leaseDurationSeconds":40,"renewTime":%q}}`,
				version, time.Now().UTC().Format("2006-01-02T15:04:05.000000Z07:00"))})
			if err != nil {
				return err
			}
			version = quotedAfter(answer, versionBefore)
			return nil
		}, nil
	},
}

// wakeTables shows sums, and then what wakes up, one table for each request.
func wakeTables(all []wakes) []table.Table {
	sums := table.Table{
		Title:  "Sums",
		Header: []string{"", "side", "context switches", "to stock", "goroutines wake up", "processors of Go begin to run"},
	}
	tables := []table.Table{}
	for i, one := range all {
		woken, processors := 0.0, 0.0
		for _, counts := range one.Services {
			woken += counts.Total()
			processors += counts.Processors
		}
		first := all[slices.IndexFunc(all, func(other wakes) bool { return other.Request == one.Request })]
		sums.Rows = append(sums.Rows, []string{
			one.Request, one.Side, number(one.Switches), table.Ratio(one.Switches, first.Switches), number(woken), number(processors),
		})
		if i+1 == len(all) || all[i+1].Request != one.Request {
			of := slices.DeleteFunc(slices.Clone(all), func(other wakes) bool { return other.Request != one.Request })
			tables = append(tables, wakeTable(one.Request, of))
		}
	}
	return append([]table.Table{sums}, tables...)
}

// wakeTable has a column for each process of each side.
func wakeTable(request string, sides []wakes) table.Table {
	t := table.Table{Title: request, Header: []string{"goroutine", "has waited for"}}
	all := &wakeups.Counts{Woken: map[wakeups.Goroutines]float64{}}
	var columns []*wakeups.Counts
	for _, one := range sides {
		for _, service := range slices.Sorted(maps.Keys(one.Services)) {
			name := service
			if len(sides) > 2 {
				name = one.Side + " " + service
			}
			t.Header = append(t.Header, name)
			columns = append(columns, one.Services[service])
			for of, n := range one.Services[service].Woken {
				all.Woken[of] = max(all.Woken[of], n)
			}
		}
	}
	for _, of := range all.Frequent(seldom) {
		cells := []string{cmp.Or(of.Function, "(not known)"), cmp.Or(of.Waited, "(not known)")}
		for _, counts := range columns {
			if n := counts.Woken[of]; n >= seldom {
				cells = append(cells, number(n))
			} else {
				cells = append(cells, "")
			}
		}
		t.Rows = append(t.Rows, cells)
	}
	return t
}

func number(n float64) string { return strconv.FormatFloat(n, 'f', 1, 64) }
