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
	"time"

	"golang.org/x/sync/errgroup"

	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"

	"github.com/tripod-k8s/tripod/lab/bench/load"
	"github.com/tripod-k8s/tripod/lab/bench/process"
	"github.com/tripod-k8s/tripod/lab/bench/schemas"
	"github.com/tripod-k8s/tripod/lab/bench/table"
	"github.com/tripod-k8s/tripod/test/framework"
)

const (
	// limitReads and limitFor are the load under which the time of a GET is measured.
	limitReads, limitFor, limitWorkers = 50, 20 * time.Second, 100
	// limitKinds is how many custom resources the load reads, spread over all definitions.
	limitKinds = 40
	// leastAvailable is the memory that other processes of the machine keep.
	leastAvailable = 1500.0
)

// grow creates definitions step by step until a GET of a custom resource takes too long, or the memory of the machine ends. It returns a
// row for each step.
func (o *options) grow(ctx context.Context) (t table.Table, err error) {
	t = table.Table{
		Title: fmt.Sprintf("definitions in %d partitions until p99 of a GET is %s after a rest of %s; %s", o.partitions, o.limit, o.settle, process.Machine()),
		Header: []string{"definitions", "seconds for this step", "p99 of a GET at once (ms)", "p50 after a rest (ms)", "p99 after a rest (ms)", "errors", "aggregator (MB)", "core (MB)",
			"default partition (MB)", "other partitions (MB)", "all (MB)", "left (MB)",
			"default partition (% of a CPU)", "other partitions (% of a CPU)", "aggregator (% of a CPU)", "etcd (% of a CPU)"},
	}
	all := schemas.Generate(o.definitions)
	dir, err := os.MkdirTemp("", "divided")
	if err != nil {
		return t, err
	}
	defer os.RemoveAll(dir) //nolint:errcheck // nothing depends on it
	env, err := framework.New("divided")
	if err != nil {
		return t, err
	}
	defer func() { err = errors.Join(err, env.Close(err != nil)) }()
	tripod, err := env.StartTripod(ctx, framework.TripodOptions{DataDir: dir, Args: o.partitionsOf(all)})
	if err != nil {
		return t, err
	}
	client, err := load.NewClient(tripod.Admin(), 4)
	if err != nil {
		return t, err
	}
	defer client.Close()
	for done := 0; done < len(all); {
		next := all[done:min(done+o.step, len(all))]
		fmt.Fprintf(os.Stderr, "%d definitions are there, and %d more are created\n", done, len(next))
		began := time.Now()
		if err := define(ctx, tripod, interleaved(all, done, len(next))); err != nil {
			return t, fmt.Errorf("after %d definitions: %w", done, err)
		}
		took := time.Since(began)
		done += len(next)
		row, reached, err := o.stepRow(ctx, tripod, client, all, done, took)
		if err != nil {
			return t, err
		}
		t.Rows = append(t.Rows, row)
		fmt.Fprintf(os.Stderr, "%s definitions: p99 of a GET %s ms at once, %s ms after a rest, %s errors, all processes %s MB, left %s MB\n", row[0], row[2], row[4], row[5], row[10], row[11])
		if reached != "" {
			t.Title += "; it ends because " + reached
			return t, nil
		}
	}
	t.Title += "; it ends because all definitions are there"
	return t, nil
}

// interleaved returns the next definitions in an order in which each step adds to all partitions.
func interleaved(all []*apiextensionsv1.CustomResourceDefinition, done, more int) []*apiextensionsv1.CustomResourceDefinition {
	const stride = 7919 // a prime, so each index comes once
	next := make([]*apiextensionsv1.CustomResourceDefinition, 0, more)
	for i := done; i < done+more; i++ {
		next = append(next, all[i*stride%len(all)])
	}
	return next
}

func (o *options) stepRow(ctx context.Context, tripod *framework.Tripod, client *load.Client, all []*apiextensionsv1.CustomResourceDefinition,
	done int, took time.Duration,
) (row []string, reached string, err error) {
	paths, err := objects(ctx, client, interleaved(all, 0, done))
	if err != nil {
		return nil, "", err
	}
	statuses, err := tripod.Status(ctx)
	if err != nil {
		return nil, "", err
	}
	result, used, err := o.readObjects(ctx, client, paths, statuses, filepath.Join(o.profiles, fmt.Sprintf("%05d-busy-", done)))
	if err != nil {
		return nil, "", err
	}
	if err := o.rest(ctx); err != nil {
		return nil, "", err
	}
	rested, _, err := o.readObjects(ctx, client, paths, statuses, filepath.Join(o.profiles, fmt.Sprintf("%05d-rested-", done)))
	if err != nil {
		return nil, "", err
	}
	var ofAggregator, ofCore, ofDefault, ofOthers, sum float64
	for _, s := range statuses {
		m, err := process.Process{Service: s.Component, PID: s.PID}.Memory()
		if err != nil {
			return nil, "", err
		}
		sum += m.Proportional
		switch {
		case s.Component == aggregator:
			ofAggregator = m.Proportional
		case s.Component == "core":
			ofCore = m.Proportional
		case s.Component == extensions:
			ofDefault = m.Proportional
		case strings.HasPrefix(s.Component, extensions+"-"):
			ofOthers += m.Proportional
		}
	}
	left, err := available()
	if err != nil {
		return nil, "", err
	}
	p99 := rested.Milliseconds(99)
	row = []string{strconv.Itoa(done), fmt.Sprintf("%.0f", took.Seconds()), fmt.Sprintf("%.1f", result.Milliseconds(99)),
		fmt.Sprintf("%.1f", rested.Milliseconds(50)), fmt.Sprintf("%.1f", p99), strconv.FormatInt(result.Errors+rested.Errors, 10)}
	for _, megabytes := range []float64{ofAggregator, ofCore, ofDefault, ofOthers, sum, left} {
		row = append(row, fmt.Sprintf("%.0f", megabytes))
	}
	for _, service := range []string{extensions, othersOf, aggregator, etcd} {
		row = append(row, fmt.Sprintf("%.0f", 100*used[service].Seconds()/limitFor.Seconds()))
	}
	switch {
	case p99 >= float64(o.limit.Milliseconds()):
		reached = "p99 is too long"
	case left < leastAvailable:
		reached = "the memory of the machine ends"
	}
	return row, reached, nil
}

const (
	// othersOf is the name of all partitions but the default one.
	othersOf = "other partitions"
	etcd     = "etcd"
)

// readObjects reads objects in turn. It also returns the processor time of the services meanwhile.
func (o *options) readObjects(ctx context.Context, client *load.Client, paths []string, statuses []framework.ComponentStatus, profilesTo string) (
	result *load.Result, used map[string]time.Duration, err error,
) {
	var processes []process.Process
	profiles, profilesContext := errgroup.WithContext(ctx)
	for _, s := range statuses {
		service := s.Component
		if strings.HasPrefix(service, extensions+"-") {
			service = othersOf
		}
		processes = append(processes, process.Process{Service: service, PID: s.PID})
		if o.profiles != "" && service != etcd {
			profiles.Go(func() error { return profile(profilesContext, client, s.Component, profilesTo) })
		}
	}
	before, err := process.CPUByService(processes)
	if err != nil {
		return nil, nil, err
	}
	turn := make(chan string, len(paths))
	for _, path := range paths {
		turn <- path
	}
	result = load.Offer(ctx, load.Offered{PerSecond: limitReads, Duration: limitFor, Workers: limitWorkers}, func(ctx context.Context) error {
		path := <-turn
		turn <- path
		return client.Do(ctx, load.Request{Method: http.MethodGet, Path: path})
	})
	if ctx.Err() != nil {
		return nil, nil, ctx.Err()
	}
	if used, err = process.CPUByService(processes); err != nil {
		return nil, nil, err
	}
	for service := range used {
		used[service] -= before[service]
	}
	return result, used, profiles.Wait()
}

// profile writes a CPU profile of the time in which objects are read.
func profile(ctx context.Context, client *load.Client, service, to string) error {
	profile, err := profileOf(ctx, client, service, fmt.Sprintf("profile?seconds=%.0f", limitFor.Seconds()))
	if err != nil {
		return err
	}
	return os.WriteFile(to+service+".pprof", profile, 0o644)
}

// objects creates an object of some of the definitions, and returns the paths of the objects.
func objects(ctx context.Context, client *load.Client, definitions []*apiextensionsv1.CustomResourceDefinition) ([]string, error) {
	var paths []string
	for i := 0; i < len(definitions); i += max(1, len(definitions)/limitKinds) {
		spec := definitions[i].Spec
		version := spec.Group + "/" + spec.Versions[0].Name
		collection := "/apis/" + version + "/namespaces/default/" + spec.Names.Plural
		body := fmt.Appendf(nil, `{"apiVersion":%q,"kind":%q,"metadata":{"name":"one"}}`, version, spec.Names.Kind)
		err := client.Do(ctx, load.Request{Method: http.MethodPost, Path: collection, ContentType: "application/json", Body: body})
		var status *load.StatusError
		if err != nil && (!errors.As(err, &status) || status.Code != http.StatusConflict) {
			return nil, fmt.Errorf("cannot create an object of %s: %w", definitions[i].Name, err)
		}
		paths = append(paths, collection+"/one")
	}
	return paths, nil
}

var memAvailable = regexp.MustCompile(`(?m)^MemAvailable:\s+(\d+) kB$`)

// available returns the memory that the machine has left, in MB.
func available() (float64, error) {
	data, err := os.ReadFile(filepath.Join("/proc", "meminfo"))
	if err != nil {
		return 0, err
	}
	found := memAvailable.FindSubmatch(data)
	if found == nil {
		return 0, errors.New("/proc/meminfo does not say how much memory is available")
	}
	kib, err := strconv.ParseFloat(string(found[1]), 64)
	return kib * 1024 / 1e6, err
}
