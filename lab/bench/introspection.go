// Copyright The Tripod Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/tripod-k8s/tripod/lab/bench/load"
)

// ask returns what a server reports about itself.
func ask(ctx context.Context, client *load.Client, service, path string) ([]byte, error) {
	if service != kubeAPIServer {
		separator := "?"
		if strings.Contains(path, "?") {
			separator = "&"
		}
		path += separator + "service=" + service
	}
	answer, err := client.Read(ctx, load.Request{Method: http.MethodGet, Path: path, Accept: "*/*"})
	if err != nil {
		err = fmt.Errorf("cannot ask %s for %s: %w", service, path, err)
	}
	return answer, err
}

var mallocsLine = regexp.MustCompile(`(?m)^# Mallocs = (\d+)$`)

// mallocs returns how many allocations the aggregator has made.
func (f *fixture) mallocs(ctx context.Context) (float64, error) {
	profile, err := ask(ctx, f.admin, aggregator, "/debug/pprof/heap?debug=1")
	if err != nil {
		return 0, err
	}
	found := mallocsLine.FindSubmatch(profile)
	if found == nil {
		return 0, errors.New("the heap profile lacks the number of allocations")
	}
	return strconv.ParseFloat(string(found[1]), 64)
}

// countMallocs calls do, which returns how many requests it sent, and records the allocations per request.
func (f *fixture) countMallocs(ctx context.Context, v values, do func() (int64, error)) error {
	// Counting allocates too.
	var counts [3]float64
	var n int64
	for i := range counts {
		var err error
		if i == len(counts)-1 {
			if n, err = do(); err != nil {
				return err
			}
		}
		if counts[i], err = f.mallocs(ctx); err != nil {
			return err
		}
	}
	v[aggregatorMallocs] = (counts[2] - counts[1] - (counts[1] - counts[0])) / float64(n)
	return nil
}

// live returns the bytes that the servers use on their heaps after a garbage collection, and for stacks. Resident memory has garbage besides, as much as
// GOGC allows. It returns 0 where replicas of an API service of others serve, which nothing can ask.
func (f *fixture) live(ctx context.Context) (bytes float64, err error) {
	if len(f.replicas) > 0 {
		return 0, nil
	}
	for _, server := range f.servers {
		if _, err := ask(ctx, f.admin, server.Service, "/debug/pprof/heap?gc=1"); err != nil {
			return 0, err
		}
		metrics, err := ask(ctx, f.admin, server.Service, "/metrics")
		if err != nil {
			return 0, err
		}
		bytes += metric(metrics, "go_memstats_heap_alloc_bytes") + metric(metrics, "go_memstats_stack_inuse_bytes")
	}
	return bytes, nil
}

// garbageCollection returns the settings of garbage collection that a server reports.
func (f *fixture) garbageCollection(ctx context.Context) (map[string]string, error) {
	settings := map[string]string{}
	for _, server := range f.servers {
		metrics, err := ask(ctx, f.admin, server.Service, "/metrics")
		if err != nil {
			return nil, err
		}
		percent, limit := metric(metrics, "go_gc_gogc_percent"), metric(metrics, "go_gc_gomemlimit_bytes")
		settings[server.Service] = fmt.Sprintf("GOGC=%g", percent)
		if limit > 0 && limit < 1<<62 {
			settings[server.Service] += fmt.Sprintf(" GOMEMLIMIT=%.0fMiB", limit/(1<<20))
		}
	}
	return settings, nil
}

// metric returns the value of a metric without labels, or 0.
func metric(metrics []byte, name string) float64 {
	for line := range strings.Lines(string(metrics)) {
		if value, found := strings.CutPrefix(line, name+" "); found {
			number, err := strconv.ParseFloat(strings.TrimSpace(value), 64)
			if err != nil {
				return 0
			}
			return number
		}
	}
	return 0
}

// profile keeps profiles of each process while a workload runs in a closed loop.
func (w workload) profile(ctx context.Context, f *fixture, duration time.Duration, dir string, kinds ...string) (err error) {
	do, open, err := w.begin(ctx, f, w.requestsFor(0, warmUp+duration))
	if err != nil {
		return err
	}
	if open != nil {
		defer func() { err = errors.Join(err, open.close()) }()
	}
	dir = filepath.Join(dir, strings.ReplaceAll(w.String(), "/", "-"))
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return err
	}
	var fetching sync.WaitGroup
	var mu sync.Mutex
	for _, server := range f.servers {
		for _, kind := range kinds {
			fetching.Go(func() {
				failed := keepProfile(ctx, f.admin, dir, f.side.Name, server.Service, kind, fmt.Sprintf("seconds=%d", max(int(duration.Seconds()), 1)))
				mu.Lock()
				defer mu.Unlock()
				err = errors.Join(err, failed)
			})
		}
	}
	var sent *load.Result
	if w.fanOut {
		sent = load.Offer(ctx, load.Offered{PerSecond: w.Rate, Duration: duration, Workers: openWorkers}, do)
	} else {
		sent = load.Saturate(ctx, closedClients, duration, do)
	}
	fetching.Wait()
	// With these numbers, shares of profiles become costs of a request.
	count := fmt.Appendf(nil, "%d requests in %s\n", sent.Requests, sent.Elapsed)
	return errors.Join(err, os.WriteFile(filepath.Join(dir, f.side.Name+"-"+kinds[0]+"-requests.txt"), count, 0o644))
}

// heapProfiles keeps heap profiles of each process.
func (f *fixture) heapProfiles(ctx context.Context, dir string) error {
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return err
	}
	for _, server := range f.servers {
		if err := keepProfile(ctx, f.admin, dir, f.side.Name, server.Service, "heap", "gc=1"); err != nil {
			return err
		}
	}
	return nil
}

// keepProfile writes a profile of a service to a file.
func keepProfile(ctx context.Context, client *load.Client, dir, side, service, kind, query string) error {
	data, err := ask(ctx, client, service, "/debug/pprof/"+kind+"?"+query)
	if err != nil {
		return err
	}
	return os.WriteFile(profileFile(dir, side, service, kind), data, 0o644)
}

func profileFile(dir, side, service, kind string) string {
	return filepath.Join(dir, side+"-"+service+"-"+kind+".pb.gz")
}
