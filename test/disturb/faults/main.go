// Copyright The Tripod Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"log/slog"
	"os"
	"regexp"
	"slices"
	"strings"
	"time"

	"golang.org/x/sync/errgroup"
	"k8s.io/klog/v2"

	"github.com/tripod-k8s/tripod/test/framework"
)

func main() { framework.RunCommand("faults", run) }

// options are the flags.
type options struct {
	run       *regexp.Regexp
	sides     []side
	clusters  int
	lasts     time.Duration
	artifacts string
	docs      string
	json      bool
	list      bool
	alerts    bool
	progress  io.Writer
}

func parse(args []string) (*options, error) {
	o := &options{progress: os.Stderr}
	flags := flag.NewFlagSet("faults", flag.ContinueOnError)
	pattern := flags.String("run", "", "only faults whose names match this regular expression (-list); what is known of the others stays in the table")
	sides := flags.String("sides", "", "only sides whose names match this regular expression")
	flags.IntVar(&o.clusters, "clusters", 2, "how many sides are broken at a time")
	flags.DurationVar(&o.lasts, "duration", 6*time.Second, "how long each fault lasts, except those that take longer to show")
	output := flags.String("o", "table", "table or json")
	flags.StringVar(&o.artifacts, "artifacts", "artifacts/faults", "directory for results")
	flags.StringVar(&o.docs, "docs", "", "write the tables into this Markdown file")
	flags.BoolVar(&o.alerts, "alerts", false, "show which alerts of the chart fire, instead of what users notice; faults last at least 40 s")
	flags.BoolVar(&o.list, "list", false, "list the faults, and stop")
	if err := flags.Parse(args); err != nil {
		return nil, err
	}
	o.json = *output == "json"
	if flags.NArg() > 0 || (!o.json && *output != "table") {
		return nil, fmt.Errorf("-o must be table or json, and there are no arguments: %q", flags.Args())
	}
	selected, err := regexp.Compile(*sides)
	if err != nil {
		return nil, err
	}
	o.sides = slices.DeleteFunc(slices.Clone(allSides), func(s side) bool { return !selected.MatchString(s.name) })
	o.run, err = regexp.Compile(*pattern)
	return o, err
}

func run(ctx context.Context, args []string) error {
	o, err := parse(args)
	if err != nil {
		return err
	}
	if o.list {
		for _, f := range faults() {
			fmt.Printf("%s (%s)\n", f.name, strings.Join(f.sides, ", "))
		}
		return nil
	}
	klog.SetSlogLogger(slog.New(slog.DiscardHandler)) // clients complain about clusters that have ended
	began := time.Now()
	defer func() { o.say("all of it took %s", time.Since(began).Round(time.Second)) }()
	if o.alerts {
		return o.runAlerts(ctx, os.Stdout)
	}
	r, err := openReport(o.artifacts)
	if err != nil {
		return err
	}
	if err := o.breakSides(ctx, o.measuring(r)); err != nil {
		return err
	}
	if o.docs != "" {
		if err := r.writeDocs(o.docs); err != nil {
			return err
		}
	}
	if o.json {
		return r.writeJSON(os.Stdout)
	}
	r.writeTables(os.Stdout)
	return r.wrong()
}

// attempt is what the command does with each fault.
type attempt struct {
	leftOut func(f fault, s side, reason string) error
	// try returns a line about the fault. broken is true if the cluster is of no more use.
	try func(ctx context.Context, c *cluster, f fault, number int) (line string, broken bool, err error)
}

// measuring measures what users notice.
func (o *options) measuring(r *report) attempt {
	return attempt{
		leftOut: func(f fault, s side, reason string) error {
			return r.add(result{Fault: f.name, Side: s.name, LeftOut: reason})
		},
		try: func(ctx context.Context, c *cluster, f fault, number int) (line string, broken bool, err error) {
			one, err := c.try(ctx, f, number, max(o.lasts, f.atLeast))
			if ctx.Err() != nil {
				return "", true, ctx.Err()
			}
			if err != nil {
				one.NotRecovered = strings.Join(append([]string{err.Error()}, one.NotRecovered), ": ")
			}
			return one.String(), one.NotRecovered != "", r.add(one)
		},
	}
}

// breakSides breaks some sides at a time.
func (o *options) breakSides(ctx context.Context, a attempt) error {
	var breaking errgroup.Group
	breaking.SetLimit(o.clusters)
	for _, s := range o.sides {
		breaking.Go(func() error { return o.breakSide(ctx, s, a) })
	}
	return breaking.Wait()
}

// breakSide tries all faults on one side. If the cluster does not recover from one, breakSide starts a new cluster.
func (o *options) breakSide(ctx context.Context, s side, a attempt) (err error) {
	selected := slices.DeleteFunc(faults(), func(f fault) bool { return !slices.Contains(f.sides, s.name) || !o.run.MatchString(f.name) })
	if len(selected) == 0 {
		return nil
	}
	began := time.Now()
	defer func() { o.say("%s: %d faults took %s", s.name, len(selected), time.Since(began).Round(time.Second)) }()
	var c *cluster
	defer func() {
		if c != nil {
			err = errors.Join(err, c.close(err != nil))
		}
	}()
	for i, f := range selected {
		if ctx.Err() != nil {
			return ctx.Err()
		}
		if c == nil {
			starts := time.Now()
			if c, err = startCluster(ctx, s); err != nil {
				return fmt.Errorf("cannot start %s: %w", s.name, err)
			}
			o.say("%s started in %s", s.name, seconds(time.Since(starts)))
		}
		if reason := f.leftOut(c.machine); reason != "" {
			o.say("%s: %s: left out: %s", s.name, f.name, reason)
			if err := a.leftOut(f, s, reason); err != nil {
				return err
			}
			continue
		}
		line, broken, err := a.try(ctx, c, f, i)
		if err != nil {
			return err
		}
		o.say("%d of %d: %s", i+1, len(selected), line)
		if broken {
			if err := c.close(true); err != nil {
				o.say("%s: %v", s.name, err)
			}
			c = nil
		}
	}
	return nil
}

func (o *options) say(format string, args ...any) {
	fmt.Fprintf(o.progress, "%s "+format+"\n", append([]any{time.Now().Format(time.TimeOnly)}, args...)...)
}
