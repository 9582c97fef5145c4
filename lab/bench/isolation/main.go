// Copyright The Tripod Authors.
// SPDX-License-Identifier: Apache-2.0

// Command isolation measures what one team notices of the troubles of another, whose definitions are many. Both have custom resources: on
// kube-apiserver, where one process and one etcd serve all, and on Tripod, where those of the second team are a partition with an etcd of its own.
//
// Clients of both teams, and of ConfigMaps, read and write at a fixed rate from the beginning to the end. Meanwhile one fault after the other
// happens to what serves the second team, with pauses in which everything recovers.
//
//	go run ./lab/bench/isolation                                                  # 1,000 definitions; about 15 minutes, as root
//	go run ./lab/bench/isolation -crds 100 -for 5s                                # a look
//	go run ./lab/bench/isolation -docs docs/benchmarks-partitions.md              # writes the page, and the graph beside it
package main

import (
	"context"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"os"
	"regexp"
	"strings"
	"time"

	"github.com/opencontainers/cgroups"

	"github.com/tripod-k8s/tripod/lab/bench/table"
	"github.com/tripod-k8s/tripod/test/framework"
)

func main() { framework.RunCommand("isolation", run) }

type options struct {
	// definitions are those of the other team, few those of the team whose requests are measured.
	definitions, few int
	// duration is how long a fault lasts, and quiet the pause after it.
	duration, quiet time.Duration
	// cpus is the limit of the third side.
	cpus    float64
	faults  *regexp.Regexp
	docs    string
	json    bool
	command string
}

func run(ctx context.Context, args []string) error {
	o := options{command: strings.Join(append([]string{"go run ./lab/bench/isolation"}, args...), " ")}
	fs := flag.NewFlagSet("isolation", flag.ContinueOnError)
	fs.IntVar(&o.definitions, "crds", 1000, "number of CustomResourceDefinitions of the other team")
	fs.IntVar(&o.few, "few", 50, "number of CustomResourceDefinitions of the team that is measured")
	fs.DurationVar(&o.duration, "for", 20*time.Second, "how long each fault lasts")
	fs.DurationVar(&o.quiet, "quiet", 10*time.Second, "how long everything rests after a fault")
	faults := fs.String("run", "", "only faults that match this regular expression")
	fs.Float64Var(&o.cpus, "cpus", 0.5, "processors that the partition may use on a third side, which needs root; 0 leaves this side out")
	output := fs.String("o", "table", "table or json")
	fs.StringVar(&o.docs, "docs", "", "write this Markdown file, and the graph beside it")
	if err := framework.ParseFlags(fs, args); err != nil {
		return err
	}
	if *output != "table" && *output != "json" {
		return fmt.Errorf("-o is %q, and must be table or json", *output)
	}
	o.json = *output == "json"
	var err error
	if o.faults, err = regexp.Compile(*faults); err != nil {
		return fmt.Errorf("-run: %w", err)
	}
	r := report{options: o, Began: time.Now()}
	for _, s := range r.sides() {
		measured, err := o.measure(ctx, s)
		if err != nil {
			return fmt.Errorf("%s: %w", s.name, err)
		}
		r.Sides = append(r.Sides, measured)
	}
	r.Took = time.Since(r.Began)
	return r.write()
}

// write writes what was measured.
func (r *report) write() error {
	if r.docs != "" {
		if err := r.writeDocs(); err != nil {
			return err
		}
	}
	if !r.json {
		return table.Write(os.Stdout, r.tables())
	}
	return json.NewEncoder(os.Stdout).Encode(r.results())
}

// measure has all faults happen on one side.
func (o *options) measure(ctx context.Context, s side) (_ *measured, err error) {
	logf("%s starts", s.name)
	var group cgroups.Manager
	if s.cpus > 0 {
		if group, err = newGroup(s.cpus); err != nil {
			return nil, err
		}
		defer func() { err = errors.Join(err, group.Destroy()) }() // when its processes have ended
	}
	env, err := framework.New("isolation")
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, env.Close(err != nil)) }()
	t, err := s.start(ctx, env)
	if err != nil {
		return nil, err
	}
	defer t.close()
	logf("%s: %d and %d definitions are created", s.name, o.few, o.definitions)
	if err := t.define(ctx, o); err != nil {
		return nil, err
	}
	if group != nil {
		if err := t.confine(ctx, group); err != nil {
			return nil, err
		}
	}
	m := &measured{Side: s.name}
	loads, err := m.startLoads(ctx, t)
	if err != nil {
		return nil, err
	}
	defer loads.stop()
	for _, f := range faults() {
		if f.name != idle && !o.faults.MatchString(f.name) {
			continue
		}
		logf("%s: %s", s.name, f.name)
		if err := o.happen(ctx, t, f, m); err != nil {
			return nil, fmt.Errorf("%s: %w", f.name, err)
		}
	}
	return m, nil
}

// happen has a fault happen for a while, and returns after the time of rest.
func (o *options) happen(ctx context.Context, t *target, f fault, m *measured) error {
	p := phase{Name: f.name, label: f.label, Began: time.Now()}
	during, cancel := context.WithTimeout(ctx, o.duration)
	note, err := f.run(t, during)
	cancel()
	if p.Ended, p.Note = time.Now(), note; err != nil {
		return err
	}
	m.Phases = append(m.Phases, p)
	if err := t.recover(ctx); err != nil {
		return err
	}
	return pause(ctx, o.quiet)
}

func pause(ctx context.Context, d time.Duration) error {
	select {
	case <-time.After(d):
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

func logf(format string, args ...any) {
	fmt.Fprintf(os.Stderr, "%s "+format+"\n", append([]any{time.Now().Format(time.TimeOnly)}, args...)...)
}
