// Copyright The Tripod Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"time"

	"github.com/tripod-k8s/tripod/lab/bench/table"
	"github.com/tripod-k8s/tripod/test/framework"
)

func main() {
	if len(os.Args) == 2 && os.Args[1] == neighbourCommand {
		beNeighbour()
	}
	framework.RunCommand("bench", bench)
}

func bench(ctx context.Context, args []string) error {
	o, err := parse(args)
	if errors.Is(err, errListed) {
		return nil
	}
	if err != nil {
		return err
	}
	// What this command was started with is no setting of the servers.
	for _, name := range []string{"GOGC", "GOMEMLIMIT", "GODEBUG", "GOMAXPROCS"} {
		if err := os.Unsetenv(name); err != nil {
			return err
		}
	}
	if err := os.MkdirAll(o.artifacts, 0o755); err != nil {
		return err
	}
	if len(o.shapes) > 0 {
		return o.compareLives(ctx)
	}
	if o.wakes > 0 {
		return o.countWakes(ctx)
	}
	r, began := newReport(o), time.Now()
	if o.goOnFrom != "" {
		if err := r.goOn(o); err != nil {
			return fmt.Errorf("-go-on: %w", err)
		}
	}
	err = errors.Join(o.measure(ctx, r), ctx.Err())
	r.Took += time.Since(began)
	if err != nil {
		o.docs = "" // what was measured until then is shown, and no more
	}
	return errors.Join(err, o.write(r))
}

// measure runs what -run selects.
func (o *options) measure(ctx context.Context, r *report) (err error) {
	selected := o.selected()
	if slices.Contains(o.conditions, memory) {
		if o.neighbour, err = startNeighbour(ctx); err != nil {
			return err
		}
		defer func() { err = errors.Join(err, o.neighbour.close()) }()
	}
	if len(r.Rows) == 0 {
		if err := o.measureStarts(ctx, r); err != nil {
			return err
		}
		if err := o.measureWorkloads(ctx, r, selected); err != nil {
			return err
		}
	}
	if r.OneProcessor == nil && o.run.MatchString(oneProcessorPart) {
		if err := o.measureOneProcessor(ctx, r); err != nil {
			return err
		}
	}
	if o.profile > 0 && o.goOnFrom == "" {
		if err := o.profiles(ctx, selected); err != nil {
			return err
		}
	}
	if r.APIServices == nil && o.run.MatchString(apiServicesPart) {
		if err := o.measureAPIServices(ctx, r); err != nil {
			return err
		}
	}
	if !o.run.MatchString(crowdPart) {
		return nil
	}
	for _, s := range o.sides {
		if s.Name == noise {
			continue
		}
		crowd, err := s.runCrowd(ctx, o, o.crds)
		if err != nil {
			return fmt.Errorf("%s with CRDs: %w", s.Name, err)
		}
		r.Crowds = append(r.Crowds, crowd)
	}
	return nil
}

// inRounds calls do for all that is compared, in each round, which counts from 1, in the opposite order of the round before.
func inRounds[T any](rounds int, compared []T, do func(round int, one T) error) error {
	for round := range rounds {
		order := slices.Clone(compared)
		if round%2 == 1 {
			slices.Reverse(order)
		}
		for _, one := range order {
			if err := do(round+1, one); err != nil {
				return err
			}
		}
	}
	return nil
}

// measureStarts starts each side alone, and lets it rest.
func (o *options) measureStarts(ctx context.Context, r *report) error {
	if !o.run.MatchString(startPart) {
		return nil
	}
	return inRounds(o.rounds, o.sides, func(round int, s side) (err error) {
		o.logf("start and rest, round %d of %d: %s", round, o.rounds, s.Name)
		f, err := s.open(ctx, resources, nil)
		if err != nil {
			return err
		}
		defer func() { err = errors.Join(err, f.close()) }()
		r.start(s, f.ready)
		doingNothing, err := f.idle(ctx)
		f.failed = err != nil
		r.Idle[s.Name] = append(r.Idle[s.Name], doingNothing)
		return err
	})
}

// measureWorkloads starts all sides, and runs each workload on one after the other. So each figure of a side has those of the others within
// seconds. The speed of many machines changes over minutes.
func (o *options) measureWorkloads(ctx context.Context, r *report, selected []workload) (err error) {
	if len(selected) == 0 {
		return nil
	}
	fixtures := map[string]*fixture{}
	defer func() {
		for _, f := range fixtures {
			f.failed = err != nil
			err = errors.Join(err, f.close())
		}
	}()
	for _, s := range o.sides {
		o.logf("start: %s", s.Name)
		if fixtures[s.Name], err = s.open(ctx, resources, nil); err != nil {
			delete(fixtures, s.Name)
			return err
		}
		if r.GarbageCollection[s.Name], err = fixtures[s.Name].garbageCollection(ctx); err != nil {
			return err
		}
	}
	if err := pause(ctx, settle); err != nil {
		return err
	}
	for i, w := range selected {
		o.logf("workload %d of %d: %s", i+1, len(selected), w)
		for _, condition := range o.conditions {
			if err := inRounds(o.rounds, o.sides, func(_ int, s side) error {
				var v values
				if err := o.under(condition, func() (err error) { v, err = w.run(ctx, fixtures[s.Name], o); return err }); err != nil {
					return fmt.Errorf("%s: %s: %w", s.Name, w, err)
				}
				r.add(s, w, condition, v)
				return nil
			}); err != nil {
				return err
			}
		}
	}
	return nil
}

// open starts a side as start does, with what workloads on these resources need.
func (s side) open(ctx context.Context, of []resource, later []string, args ...string) (*fixture, error) {
	c, err := s.start(ctx, later, args...)
	if err != nil {
		return nil, err
	}
	f, err := c.setUp(ctx, of...)
	if err != nil {
		return nil, errors.Join(err, c.close())
	}
	f.failed = true
	return f, nil
}

// under calls do under a condition.
func (o *options) under(condition string, do func() error) error {
	if condition == alone {
		return do()
	}
	return o.neighbour.beside(do)
}

// profiles runs the workloads on each side for profiles: first of processor time and allocations, then of how long goroutines wait for each
// other. That needs servers that measure it, which costs time.
func (o *options) profiles(ctx context.Context, selected []workload) error {
	for _, pass := range []struct {
		duration time.Duration
		args     []string
		kinds    []string
	}{
		{duration: o.profile, kinds: []string{"profile", "allocs"}},
		{duration: o.profile / 2, kinds: []string{"block"}, args: []string{"--contention-profiling"}},
	} {
		for _, s := range o.sides {
			if s.Name == noise {
				continue
			}
			o.logf("profiles: %s %v", s.Name, pass.kinds)
			if err := s.profilesOf(ctx, o, selected, pass.duration, pass.args, pass.kinds); err != nil {
				return err
			}
		}
	}
	return nil
}

func (s side) profilesOf(
	ctx context.Context, o *options, selected []workload, duration time.Duration, args, kinds []string,
) (err error) {
	if len(selected) == 0 {
		return nil
	}
	f, err := s.open(ctx, resources, nil, args...)
	if err != nil {
		return err
	}
	defer func() {
		f.failed = err != nil
		err = errors.Join(err, f.close())
	}()
	for _, w := range selected {
		if err := w.profile(ctx, f, duration, filepath.Join(o.artifacts, "profiles"), kinds...); err != nil {
			return fmt.Errorf("%s: %s: %w", s.Name, w, err)
		}
	}
	return ctx.Err()
}

// write writes the results.
func (o *options) write(r *report) error {
	r.finish()
	data, err := json.MarshalIndent(r, "", "  ")
	if err != nil {
		return err
	}
	if err := os.WriteFile(filepath.Join(o.artifacts, "results.json"), append(data, '\n'), 0o644); err != nil {
		return err
	}
	var refused error
	if o.docs != "" {
		if refused = r.checkNoise(o.maxNoise); refused == nil {
			refused = r.writeDocs(o.docs)
		}
	}
	if o.json {
		_, err = fmt.Println(string(data))
	} else {
		err = table.Write(os.Stdout, r.tables())
	}
	return errors.Join(refused, err)
}

func (o *options) logf(format string, args ...any) {
	fmt.Fprintf(o.progress, "%s "+format+"\n", append([]any{time.Now().Format(time.TimeOnly)}, args...)...)
}
