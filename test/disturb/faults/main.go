// Copyright The Tripod Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"regexp"
	"slices"
	"strings"
	"time"

	"github.com/tripod-k8s/tripod/test/framework"
)

func main() { framework.RunCommand("faults", run) }

// options are what the command line says.
type options struct {
	run       *regexp.Regexp
	sides     []string
	lasts     time.Duration
	artifacts string
	docs      string
	json      bool
	list      bool
	progress  io.Writer
}

func parse(args []string) (*options, error) {
	o := &options{progress: os.Stderr}
	flags := flag.NewFlagSet("faults", flag.ContinueOnError)
	pattern := flags.String("run", "", "only faults whose names match this regular expression (-list); what is known of the others stays in the table")
	sides := flags.String("sides", tripod+","+stock, "what is broken")
	flags.DurationVar(&o.lasts, "duration", 10*time.Second, "how long each fault lasts")
	output := flags.String("o", "table", "table or json")
	flags.StringVar(&o.artifacts, "artifacts", "artifacts/faults", "directory for results")
	flags.StringVar(&o.docs, "docs", "", "write the tables into this Markdown file")
	flags.BoolVar(&o.list, "list", false, "list the faults, and stop")
	if err := flags.Parse(args); err != nil {
		return nil, err
	}
	o.json, o.sides = *output == "json", strings.Split(*sides, ",")
	if flags.NArg() > 0 || (!o.json && *output != "table") {
		return nil, fmt.Errorf("-o must be table or json, and there are no arguments: %q", flags.Args())
	}
	for _, side := range o.sides {
		if side != tripod && side != stock {
			return nil, fmt.Errorf("-sides must be %s, %s or both", tripod, stock)
		}
	}
	var err error
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
	r, err := openReport(o.artifacts)
	if err != nil {
		return err
	}
	for _, side := range o.sides {
		selected := slices.DeleteFunc(faults(), func(f fault) bool { return !slices.Contains(f.sides, side) || !o.run.MatchString(f.name) })
		if err := o.breakSide(ctx, side, selected, r); err != nil {
			return err
		}
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

// breakSide tries faults on one side. After one from which it did not recover, the side is started anew.
func (o *options) breakSide(ctx context.Context, side string, selected []fault, r *report) (err error) {
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
			o.say("%s starts", side)
			if c, err = startCluster(ctx, side, "faults"); err != nil {
				return fmt.Errorf("cannot start %s: %w", side, err)
			}
		}
		if reason := f.leftOut(c.machine); reason != "" {
			o.say("%s: %s: left out: %s", side, f.name, reason)
			if err := r.add(result{Fault: f.name, Side: side, LeftOut: reason}); err != nil {
				return err
			}
			continue
		}
		o.say("%s: %s (%d of %d)", side, f.name, i+1, len(selected))
		one, err := c.try(ctx, f, i, o.lasts)
		if ctx.Err() != nil {
			return ctx.Err()
		}
		if err != nil {
			one.NotRecovered = strings.Join(append([]string{err.Error()}, one.NotRecovered), ": ")
		}
		o.say("%s", one)
		if err := r.add(one); err != nil {
			return err
		}
		if one.NotRecovered != "" {
			if err := c.close(true); err != nil {
				o.say("%s: %v", side, err)
			}
			c = nil
		}
	}
	return nil
}

func (o *options) say(format string, args ...any) {
	fmt.Fprintf(o.progress, "%s "+format+"\n", append([]any{time.Now().Format(time.TimeOnly)}, args...)...)
}
