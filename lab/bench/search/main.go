// Copyright The Tripod Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"time"

	"github.com/tripod-k8s/tripod/lab/bench/table"
	"github.com/tripod-k8s/tripod/test/framework"
)

func main() { framework.RunCommand("bench-search", bench) }

// The parts of a run.
const (
	syncPart  = "SYNC"
	lagPart   = "LAG"
	watchPart = "WATCH"
	listPart  = "LIST"
	manyPart  = "MANY"
	// consolePart searches by words, and reads pages of the console.
	consolePart = "CONSOLE"
)

// options are the flags.
type options struct {
	run                    *regexp.Regexp
	objects, many, changes int
	clusters               int
	duration               time.Duration
	clusterpedia           string
	data                   string
	docs, artifacts, from  string
	commandLine            string
}

func parse(args []string) (*options, error) {
	o := &options{commandLine: strings.Join(append([]string{"go run ./lab/bench/search"}, args...), " ")}
	flags := flag.NewFlagSet("search", flag.ContinueOnError)
	run := flags.String("run", ".", "parts to run, a regular expression: SYNC, LAG, WATCH, LIST (which need SYNC), MANY and CONSOLE (words, and pages of the console)")
	flags.IntVar(&o.objects, "objects", 100_000, "objects of the two kube-apiservers together")
	flags.IntVar(&o.many, "many", 1_000_000, "objects of the members that the benchmark plays")
	flags.IntVar(&o.clusters, "clusters", 10, "members that the benchmark plays")
	flags.IntVar(&o.changes, "changes", 1000, "changes a second")
	flags.DurationVar(&o.duration, "duration", 10*time.Second, "how long changes last, and half as long each search")
	flags.StringVar(&o.clusterpedia, "clusterpedia", os.Getenv("CLUSTERPEDIA"), "directory with clustersynchro-manager and apiserver of Clusterpedia; empty leaves it out")
	flags.StringVar(&o.data, "data", "", "directory of PostgreSQL in which the many objects stay for the next run; empty is a temporary one")
	flags.StringVar(&o.docs, "docs", "", "page to write")
	flags.StringVar(&o.from, "from", "", "results.json of an earlier run, of which to write the page")
	flags.StringVar(&o.artifacts, "artifacts", "artifacts/bench-search", "directory for results and profiles")
	if err := framework.ParseFlags(flags, args); err != nil {
		return nil, err
	}
	var err error
	if o.run, err = regexp.Compile(*run); err != nil {
		return nil, fmt.Errorf("-run: %w", err)
	}
	if o.objects < appSize*members || o.clusters < 1 || o.many < appSize*o.clusters || o.changes < 1 {
		return nil, fmt.Errorf("-objects must be %d or more, -many %d, and -clusters and -changes 1", appSize*members, appSize*max(o.clusters, 1))
	}
	if o.data != "" { // PostgreSQL runs in another directory
		if o.data, err = filepath.Abs(o.data); err != nil {
			return nil, err
		}
	}
	return o, os.MkdirAll(o.artifacts, 0o755)
}

func bench(ctx context.Context, args []string) error {
	o, err := parse(args)
	if err != nil {
		return err
	}
	if o.from != "" {
		return o.render()
	}
	r := newReport(o)
	failed := o.measure(ctx, r)
	r.Took = time.Since(r.Date)
	data, err := json.MarshalIndent(r, "", "  ")
	if err == nil {
		err = os.WriteFile(filepath.Join(o.artifacts, "results.json"), append(data, '\n'), 0o644)
	}
	if err == nil && failed == nil && o.docs != "" {
		err = r.writeDocs(o.docs)
	}
	return errors.Join(failed, err, table.Write(os.Stdout, r.printed()))
}

// render writes the page of an earlier run.
func (o *options) render() error {
	data, err := os.ReadFile(o.from)
	if err != nil {
		return err
	}
	r := &report{}
	if err := json.Unmarshal(data, r); err != nil {
		return fmt.Errorf("%s: %w", o.from, err)
	}
	if o.docs != "" {
		return r.writeDocs(o.docs)
	}
	return table.Write(os.Stdout, r.printed())
}

// measure runs what -run selects.
func (o *options) measure(ctx context.Context, r *report) (err error) {
	b, err := newBench(o)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, b.close(err != nil)) }()
	if o.run.MatchString(syncPart) {
		if err := b.compare(ctx, r); err != nil {
			return err
		}
	}
	if o.run.MatchString(manyPart) || o.run.MatchString(consolePart) {
		return b.measureMany(ctx, r)
	}
	return nil
}

func logf(format string, args ...any) {
	fmt.Fprintf(os.Stderr, "%s "+format+"\n", append([]any{time.Now().Format(time.TimeOnly)}, args...)...)
}
