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

	"github.com/tripod-k8s/tripod/lab/e2esuite"
	"github.com/tripod-k8s/tripod/test/framework"
)

// groups are the special interest groups whose specs are about the API.
var groups = []string{
	"sig-api-machinery", "sig-apps", "sig-architecture", "sig-auth", "sig-cli", "sig-instrumentation", "sig-scheduling",
}

// errDiffers is returned after the differences are printed.
var errDiffers = errors.New("specs that pass on stock fail on Tripod")

// options are the flags of the command.
type options struct {
	groups  []string
	focus   *regexp.Regexp
	skip    *regexp.Regexp
	refresh bool
	again   bool
	// divided starts Tripod with partitions.
	divided bool
	procs   int
	timeout time.Duration
	list    string
	// kept is the directory with what came of the specs, and ginkgo's logs.
	kept string
}

// customResources matches the names of specs about custom resources.
const customResources = `CustomResource|custom resource|CRD`

// partitions divides the API groups of these specs. The default partition has the others, such as those with random names.
var partitions = []string{
	"a=mygroup.example.com,crd-publish-openapi-test-foo.example.com,webhook.example.com,stable.example.com",
	"b=crd-publish-openapi-test-waldo.example.com,crd-publish-openapi-test-common-group.example.com,resourcequota.example.com," +
		"kubectl.example.com,crd-validation-ratcheting.example.com",
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
	skip := flags.String("skip", "", "do not run specs whose name matches this regular expression, such as '\\[Conformance\\]'")
	o := &options{}
	flags.BoolVar(&o.refresh, "refresh", false, "run all specs on stock, but for those that ran before, and write those that pass to the list")
	flags.BoolVar(&o.again, "again", false, "run also what has passed on Tripod or, with -refresh, what has failed on stock")
	flags.BoolVar(&o.divided, "partitions", false, "divide extensions of Tripod into three parts, and run the specs about custom resources, unless -focus is given")
	flags.IntVar(&o.procs, "procs", 12, "specs that run at a time; most of them wait most of the time")
	flags.DurationVar(&o.timeout, "timeout", 3*time.Hour, "time for the specs of each setting")
	flags.StringVar(&o.kept, "results", "bin/conformance", "directory for what came of the specs, and logs")
	flags.StringVar(&o.list, "list", "lab/conformance/specs.txt", "file with the specs")
	if err := framework.ParseFlags(flags, args); err != nil {
		return nil, err
	}
	if o.divided && *focus == "" {
		*focus = customResources
	}
	var err error
	if o.focus, err = regexp.Compile(*focus); err != nil {
		return nil, fmt.Errorf("-focus: %w", err)
	}
	if *skip != "" {
		if o.skip, err = regexp.Compile(*skip); err != nil {
			return nil, fmt.Errorf("-skip: %w", err)
		}
	}
	o.groups = strings.Split(*sigs, ",")
	for _, group := range o.groups {
		if !slices.Contains(groups, group) {
			return nil, fmt.Errorf("-sig: %q is none of %s", group, strings.Join(groups, ", "))
		}
	}
	return o, nil
}

// choose returns the specs that the flags choose.
func (o *options) choose(specs []string) []string {
	var chosen []string
	for _, spec := range specs {
		if slices.Contains(o.groups, e2esuite.GroupOf(spec)) && o.focus.MatchString(spec) && (o.skip == nil || !o.skip.MatchString(spec)) {
			chosen = append(chosen, spec)
		}
	}
	return chosen
}
