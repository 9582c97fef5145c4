// Copyright The Tripod Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"regexp"
	"slices"
	"strings"
	"time"

	"github.com/tripod-k8s/tripod/test/framework"
)

// groups are the special interest groups whose conformance specs are about the API.
var groups = []string{
	"sig-api-machinery", "sig-apps", "sig-architecture", "sig-auth", "sig-cli", "sig-instrumentation",
}

// errDiffers is returned after the differences are printed.
var errDiffers = errors.New("specs that pass on stock fail on Tripod")

// options are the flags of the command.
type options struct {
	groups  []string
	focus   *regexp.Regexp
	refresh bool
	procs   int
	timeout time.Duration
	list    string
}

func main() { framework.RunCommand("conformance", conformance) }

func conformance(ctx context.Context, args []string) error {
	o, err := parse(args)
	if err != nil {
		return err
	}
	if o.refresh {
		return refresh(ctx, o)
	}
	return compareClusters(ctx, o)
}

func parse(args []string) (*options, error) {
	flags := flag.NewFlagSet("conformance", flag.ContinueOnError)
	sigs := flags.String("sig", strings.Join(groups, ","), "special interest groups whose specs are run")
	focus := flags.String("focus", "", "run only specs whose name matches this regular expression")
	o := &options{}
	flags.BoolVar(&o.refresh, "refresh", false, "run all conformance specs on stock and write those that pass to the list")
	flags.IntVar(&o.procs, "procs", 6, "specs that run at a time; most of them wait most of the time")
	flags.DurationVar(&o.timeout, "timeout", time.Hour, "time for the specs of each group")
	flags.StringVar(&o.list, "list", "test/suites/conformance/specs.txt", "file with the specs")
	if err := framework.ParseFlags(flags, args); err != nil {
		return nil, err
	}
	var err error
	if o.focus, err = regexp.Compile(*focus); err != nil {
		return nil, fmt.Errorf("-focus: %w", err)
	}
	o.groups = strings.Split(*sigs, ",")
	for _, group := range o.groups {
		if !slices.Contains(groups, group) {
			return nil, fmt.Errorf("-sig: %q is none of %s", group, strings.Join(groups, ", "))
		}
	}
	return o, nil
}
