// Copyright The Tripod Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"net/http"
	"os"
	"regexp"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/tripod-k8s/tripod/lab/bench/load"
	"github.com/tripod-k8s/tripod/lab/bench/process"
	"github.com/tripod-k8s/tripod/test/framework"
)

const (
	// objects is how many there are before the first request is measured.
	objects = 500
	// Clients send requests as fast as they are answered, and lists two at a time.
	clients, listers = 4, 2
	// Watchers get changes at a rate.
	watchers, changesPerSecond = 100, 20
	servedTimeout, settle      = time.Minute, 5 * time.Second
	mib                        = 1 << 20
)

// figures are those of a workload.
type figures struct {
	// PerSecond counts requests, or for watches events that one watcher gets.
	PerSecond, P50, P99 float64
	// CPU is the processor time that the service takes for each, in milliseconds.
	CPU float64
}

// measured is a storage with what was measured, by round.
type measured struct {
	side
	// Size is that of the program, and Memory that of the process after the start with objects, in MiB. Ready is in seconds.
	Size, Memory, Ready []float64
	Workloads           map[string][]figures
}

// workloads are in the order of the tables.
var workloads = []string{"GET", "LIST 500", "CREATE", "WATCH"}

// target is a service that runs.
type target struct {
	side
	client  *load.Client
	process process.Process
	next    atomic.Int64
}

// measure starts the service with an empty storage, and measures it.
func (m *measured) measure(ctx context.Context, env *framework.Environment, duration time.Duration) error {
	own, err := m.args()
	if err != nil {
		return err
	}
	args := []string{"--service=" + service + "=" + m.program}
	for _, flag := range own {
		args = append(args, "--service-arg="+service+"="+flag)
	}
	tripod, err := env.StartTripod(ctx, framework.TripodOptions{Args: args})
	if err != nil {
		return err
	}
	defer tripod.Stop() //nolint:errcheck // the error of the figures counts
	client, err := load.NewClient(tripod.Admin(), clients)
	if err != nil {
		return err
	}
	defer client.Close()
	t := &target{side: m.side, client: client}
	if err := t.fill(ctx); err != nil {
		return err
	}
	status, err := tripod.Component(ctx, service)
	if err != nil {
		return err
	}
	t.process = process.Process{Service: service, PID: status.PID}
	if err := m.start(ctx, tripod, t); err != nil {
		return err
	}
	return m.requests(ctx, t, duration)
}

// readyLine is what tripod up says of a replica that is ready.
var readyLine = regexp.MustCompile(service + `-0\s+ready after ([0-9.]+)s`)

// start measures the program, its start and its memory.
func (m *measured) start(ctx context.Context, tripod *framework.Tripod, t *target) error {
	info, err := os.Stat(m.program)
	if err != nil {
		return err
	}
	log, err := os.ReadFile(tripod.Process.Log)
	if err != nil {
		return err
	}
	ready := readyLine.FindSubmatch(log)
	if ready == nil {
		return errors.New("tripod up does not say when the service was ready")
	}
	after, err := strconv.ParseFloat(string(ready[1]), 64)
	if err != nil {
		return err
	}
	select {
	case <-ctx.Done():
		return ctx.Err()
	case <-time.After(settle):
	}
	memory, err := t.process.Memory()
	if err != nil {
		return err
	}
	m.Size = append(m.Size, float64(info.Size())/mib)
	m.Ready = append(m.Ready, after)
	m.Memory = append(m.Memory, memory.Resident*1e6/mib)
	return nil
}

func (t *target) object(name string) []byte {
	return fmt.Appendf(nil, `{"apiVersion":%q,"kind":%q,"metadata":{"name":%q},"spec":%s}`, t.version, t.kind, name, t.spec)
}

func (t *target) create(ctx context.Context) error {
	name := fmt.Sprintf("n-%06d", t.next.Add(1))
	return t.client.Do(ctx, load.Request{Method: http.MethodPost, Path: t.path, Body: t.object(name)})
}

// fill waits until the objects are served, and creates some.
func (t *target) fill(ctx context.Context) error {
	until := time.Now().Add(servedTimeout)
	for err := errors.New(""); err != nil; {
		if err = t.client.Do(ctx, load.Request{Method: http.MethodGet, Path: t.path}); err != nil && time.Now().After(until) {
			return err
		}
	}
	creating, ctx := errgroup.WithContext(ctx)
	creating.SetLimit(clients)
	for range objects {
		creating.Go(func() error { return t.create(ctx) })
	}
	return creating.Wait()
}

// requests measures the workloads.
func (m *measured) requests(ctx context.Context, t *target, duration time.Duration) error {
	if m.Workloads == nil {
		m.Workloads = map[string][]figures{}
	}
	var turn atomic.Int64
	get := func(ctx context.Context) error {
		path := fmt.Sprintf("%s/n-%06d", t.path, turn.Add(1)%objects+1)
		return t.client.Do(ctx, load.Request{Method: http.MethodGet, Path: path})
	}
	list := func(ctx context.Context) error {
		return t.client.Do(ctx, load.Request{Method: http.MethodGet, Path: t.path + "?limit=" + strconv.Itoa(objects)})
	}
	for _, w := range []struct {
		name    string
		clients int
		do      load.Operation
	}{{"GET", clients, get}, {"LIST 500", listers, list}, {"CREATE", clients, t.create}} {
		before, err := t.process.CPU()
		if err != nil {
			return err
		}
		result := load.Saturate(ctx, w.clients, duration, w.do)
		after, err := t.process.CPU()
		switch {
		case err != nil:
			return err
		case result.Errors > 0:
			return fmt.Errorf("%s: %d of %d requests failed, the first one with: %w", w.name, result.Errors, result.Requests, result.Error)
		}
		m.Workloads[w.name] = append(m.Workloads[w.name], figures{
			result.PerSecond(), result.Milliseconds(50), result.Milliseconds(99),
			(after - before).Seconds() * 1000 / float64(result.Requests),
		})
	}
	watched, err := t.watch(ctx, duration)
	if err != nil {
		return fmt.Errorf("WATCH: %w", err)
	}
	m.Workloads["WATCH"] = append(m.Workloads["WATCH"], watched)
	return nil
}

// sent is an annotation with the time at which a client has sent a change.
const sent = "example.com/sent"

var sentAt = regexp.MustCompile(`"` + sent + `":"([0-9]+)"`)

// watch measures how long events take from the change to each watcher. All have to arrive.
func (t *target) watch(ctx context.Context, duration time.Duration) (figures, error) {
	begin, err := t.client.Read(ctx, load.Request{Method: http.MethodGet, Path: t.path + "?limit=1"})
	if err != nil {
		return figures{}, err
	}
	version := regexp.MustCompile(`"resourceVersion":"([0-9]+)"`).FindSubmatch(begin)
	if version == nil {
		return figures{}, errors.New("the list has no resourceVersion")
	}
	total := int(changesPerSecond * duration.Seconds())
	times := load.NewTimes()
	following, watching := errgroup.WithContext(ctx)
	watching, stop := context.WithTimeout(watching, duration+servedTimeout)
	defer stop()
	var ready sync.WaitGroup
	ready.Add(watchers)
	for range watchers {
		following.Go(func() error {
			path := t.path + "?watch=1&allowWatchBookmarks=false&resourceVersion=" + string(version[1])
			return t.follow(watching, path, total, times, &ready)
		})
	}
	ready.Wait()
	before, err := t.process.CPU()
	if err != nil {
		return figures{}, err
	}
	var turn atomic.Int64
	began := time.Now()
	offered := load.Offered{PerSecond: changesPerSecond, Duration: duration, Workers: clients}
	result := load.Offer(ctx, offered, func(ctx context.Context) error {
		return t.client.Do(ctx, load.Request{
			Method: http.MethodPatch, ContentType: "application/merge-patch+json",
			Path: fmt.Sprintf("%s/n-%06d", t.path, turn.Add(1)%objects+1),
			Body: fmt.Appendf(nil, `{"metadata":{"annotations":{%q:"%d"}}}`, sent, time.Now().UnixNano()),
		})
	})
	if result.Errors > 0 {
		stop()
		return figures{}, errors.Join(result.Error, following.Wait())
	}
	if err := following.Wait(); err != nil {
		return figures{}, err
	}
	after, err := t.process.CPU()
	events := float64(total * watchers)
	return figures{
		float64(total) / time.Since(began).Seconds(), times.Milliseconds(50), times.Milliseconds(99), (after - before).Seconds() * 1000 / events,
	}, err
}

// follow reads so many changes.
func (t *target) follow(ctx context.Context, path string, total int, times *load.Times, ready *sync.WaitGroup) error {
	stream, err := t.client.Stream(ctx, load.Request{Method: http.MethodGet, Path: path})
	ready.Done()
	if err != nil {
		return err
	}
	defer stream.Close() //nolint:errcheck // what counts is what was read
	lines := bufio.NewScanner(stream)
	lines.Buffer(nil, mib)
	for got := 0; got < total; {
		if !lines.Scan() {
			return fmt.Errorf("a watch has ended after %d of %d events: %w", got, total, errors.Join(lines.Err(), ctx.Err()))
		}
		at := sentAt.FindSubmatch(lines.Bytes())
		if at == nil || !strings.Contains(lines.Text(), `"MODIFIED"`) {
			continue
		}
		nanos, err := strconv.ParseInt(string(at[1]), 10, 64)
		if err != nil {
			return err
		}
		times.Add(time.Since(time.Unix(0, nanos)))
		got++
	}
	return nil
}
