// Copyright The Tripod Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"time"

	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"

	"github.com/tripod-k8s/tripod/lab/bench/schemas"
)

// Parts that -run selects by name, like workloads.
const (
	startPart        = "START"
	oneProcessorPart = "ONE PROCESSOR"
	crowdPart        = "CRDs"
	apiServicesPart  = "API SERVICES"
)

// options are the flags of the command.
type options struct {
	run        *regexp.Regexp
	rounds     int
	duration   time.Duration
	profile    time.Duration
	quiet      time.Duration
	sides      []side
	conditions []string
	neighbour  *neighbour // nil when all is measured alone
	crds       []*apiextensionsv1.CustomResourceDefinition
	// shapes are the control planes on which a cluster of some nodes and pods lives, instead of the workloads.
	shapes      []shape
	nodes, pods int
	// wakes is for how long wake-ups of small requests are counted instead, or 0.
	wakes     time.Duration
	json      bool
	artifacts string
	// goOnFrom is a file with the results of a run that was broken off, or empty.
	goOnFrom string
	docs     string
	// maxNoise is by how much stock may differ from stock for a page to be written.
	maxNoise    float64
	commandLine string
	// progress gets lines for people about what is running.
	progress io.Writer
}

func parse(args []string) (*options, error) {
	o := &options{progress: os.Stderr, commandLine: strings.Join(append([]string{"go run ./lab/bench"}, args...), " ")}
	flags := flag.NewFlagSet("bench", flag.ContinueOnError)
	run := flags.String("run", "", "run only workloads whose NAME/RESOURCE/CREDENTIALS match this regular expression (-list), and START, ONE PROCESSOR, CRDs, API SERVICES")
	list := flags.Bool("list", false, "list what can be run, and stop")
	short := flags.Bool("short", false, "a look, not a measurement: one round of half a second for each workload, 60 CRDs, no profiles")
	flags.IntVar(&o.rounds, "rounds", 3, "how often each workload is run on each side")
	flags.DurationVar(&o.duration, "duration", time.Second, "how long each workload is run at its rate, and then in a closed loop")
	flags.DurationVar(&o.profile, "profile", 2*time.Second, "how long each workload is profiled; 0 for no profiles")
	flags.DurationVar(&o.quiet, "quiet", 20*time.Second, "time before and after the CRDs")
	names := flags.String("sides", "stock,noise,tripod", "what is compared: stock, noise (stock once more) and tripod; may be empty")
	binaries, envs := pairs{}, pairs{}
	flags.Var(&binaries, "variant", "`NAME=DIR`: compare the services in this directory, too, under this name; may be repeated")
	flags.Var(&envs, "variant-env", "`NAME=KEY=VALUE`: environment of the variant; may be repeated")
	neighbours := flags.String("neighbour", alone, "run workloads alone (none), beside a process that keeps caches and memory busy (memory), or both")
	count := flags.Int("crd-count", 600, "how many CRDs are generated")
	dir := flags.String("crds", "", "directory with real CRDs, instead of generated ones")
	shapes := flags.String("shapes", "", "have a whole cluster live on these control planes, one after the other, instead of workloads: stock, N*stock, drop-in, AGGREGATORS/CORES/EXTENSIONS[@DIRECTORY]; separated by commas; NAME=... to give one another name")
	flags.IntVar(&o.nodes, "nodes", 300, "how many nodes that cluster has")
	flags.IntVar(&o.pods, "pods", 3000, "how many pods it has")
	flags.DurationVar(&o.wakes, "wakes", 0, "instead of workloads, show what wakes up on the way of one small request, counted for so long")
	output := flags.String("o", "table", "table or json")
	flags.StringVar(&o.artifacts, "artifacts", "artifacts/bench", "directory for profiles and results")
	flags.StringVar(&o.goOnFrom, "go-on", "", "take workloads, ONE PROCESSOR and API SERVICES from this file, the results.json of a run that was broken off, and measure what it lacks")
	flags.StringVar(&o.docs, "docs", "", "write this Markdown file, and the graph beside it")
	flags.Float64Var(&o.maxNoise, "max-noise", 1.1, "write no Markdown file if half of the workloads differ by more than this ratio between stock and noise")
	if err := flags.Parse(args); err != nil {
		return nil, err
	}
	if *list {
		return nil, listParts(os.Stdout)
	}
	if *short {
		o.rounds, o.duration, o.profile, o.quiet, *count = 1, 500*time.Millisecond, 0, 5*time.Second, 60
	}
	if flags.NArg() > 0 || o.rounds < 1 || (*output != "table" && *output != "json") {
		return nil, fmt.Errorf("-rounds must be 1 or more, -o table or json, and there are no arguments: %q", flags.Args())
	}
	o.json = *output == "json"
	var err error
	if o.run, err = regexp.Compile(*run); err != nil {
		return nil, fmt.Errorf("-run: %w", err)
	}
	if o.conditions, err = conditions(*neighbours); err != nil {
		return nil, err
	}
	if o.sides, err = selectSides(strings.FieldsFunc(*names, func(r rune) bool { return r == ',' })); err != nil {
		return nil, err
	}
	variants, err := variants(binaries, envs)
	if err != nil {
		return nil, err
	}
	o.sides = append(o.sides, variants...)
	if len(o.sides) == 0 || (o.docs != "" && len(variants) > 0) {
		return nil, errors.New("-sides and -variant select nothing, or -docs is given, which is about Tripod as it is shipped")
	}
	if o.docs != "" && *shapes == "" && o.wakes == 0 && !slices.ContainsFunc(o.sides, func(s side) bool { return s.Name == noise }) {
		return nil, errors.New("-docs needs " + noise + " among -sides: without it, readers cannot judge a ratio")
	}
	if *shapes != "" {
		o.shapes, err = parseShapes(*shapes)
		return o, err
	}
	if *dir == "" {
		o.crds = schemas.Generate(*count)
		return o, nil
	}
	o.crds, err = schemas.Read(*dir)
	return o, err
}

// errListed ends the command after a list.
var errListed = errors.New("listed")

func listParts(w io.Writer) error {
	fmt.Fprintln(w, startPart)
	for _, one := range workloads() {
		fmt.Fprintln(w, one)
	}
	fmt.Fprintln(w, oneProcessorPart)
	fmt.Fprintln(w, crowdPart)
	fmt.Fprintln(w, apiServicesPart)
	return errListed
}

func selectSides(names []string) ([]side, error) {
	var selected []side
	for _, one := range sides() {
		if slices.Contains(names, one.Name) {
			selected = append(selected, one)
		}
	}
	if len(selected) != len(names) {
		return nil, fmt.Errorf("-sides: %q has what is none of %s, %s, %s", names, stock, noise, tripod)
	}
	return selected, nil
}

// selected returns the workloads that are to be run.
func (o *options) selected() []workload {
	return slices.DeleteFunc(workloads(), func(w workload) bool { return !o.run.MatchString(w.String()) })
}

// pairs are the values of a flag that can be repeated, each NAME=VALUE.
type pairs [][2]string

// String implements flag.Value.
func (p *pairs) String() string { return fmt.Sprint(*p) }

// Set implements flag.Value.
func (p *pairs) Set(s string) error {
	name, value, found := strings.Cut(s, "=")
	if !found || name == "" || value == "" {
		return errors.New("it must be NAME=VALUE")
	}
	*p = append(*p, [2]string{name, value})
	return nil
}

// variants returns the sides that -variant and -variant-env describe.
func variants(binaries, envs pairs) ([]side, error) {
	var all []side
	named := func(name string) int { return slices.IndexFunc(all, func(s side) bool { return s.Name == name }) }
	for _, one := range binaries {
		dir, err := filepath.Abs(one[1])
		if err != nil {
			return nil, err
		}
		if named(one[0]) >= 0 || slices.Contains([]string{stock, noise, tripod}, one[0]) {
			return nil, fmt.Errorf("-variant: another side is called %s", one[0])
		}
		all = append(all, side{Name: one[0], binaries: dir})
	}
	for _, one := range envs {
		i := named(one[0])
		if i < 0 || !strings.Contains(one[1], "=") {
			return nil, fmt.Errorf("-variant-env: %s=%s is not KEY=VALUE of a -variant", one[0], one[1])
		}
		all[i].env = append(all[i].env, one[1])
	}
	return all, nil
}
