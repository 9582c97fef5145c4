// Copyright The Tripod Authors.
// SPDX-License-Identifier: Apache-2.0

// Command conformance runs Kubernetes' conformance suite in a kind cluster whose API server is Tripod, and compares with kube-apiserver in the
// same cluster. It keeps what passed by version, so that it can be interrupted and run in parts.
//
// Environment variables configure it besides those of package environment:
//
//	CONFORMANCE_PREPARE  program that gets the name of the cluster once it is made, such as one that loads the images of the suite
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"time"

	"github.com/tripod-k8s/tripod/e2e/progress"
	"github.com/tripod-k8s/tripod/lab/e2esuite"
	"github.com/tripod-k8s/tripod/test/framework"
)

// errDiffers is returned after the differences are printed.
var errDiffers = errors.New("specs that pass on stock do not pass on Tripod")

// options are the flags of the command.
type options struct {
	forms      []form
	sigs       []string
	focus      *regexp.Regexp
	shard      shard
	procs      int
	retries    int
	timeout    time.Duration
	again      bool
	allOnStock bool
	keep       bool
	results    string
	docs       string
	reportOnly bool
}

func main() { framework.RunCommand("conformance-cluster", conformance) }

func parse(args []string) (*options, error) {
	flags := flag.NewFlagSet("conformance-cluster", flag.ContinueOnError)
	o := &options{shard: shard{1, 1}}
	names := flags.String("form", strings.Join(formNames(allForms), ","), "what is the API server, one after the other")
	sigs := flags.String("sig", "", "special interest groups whose specs are run, such as sig-apps,sig-node; empty means all")
	focus := flags.String("focus", "", "run only specs whose name matches this regular expression")
	flags.Var(&o.shard, "shard", "part of the specs, such as 2/6")
	flags.IntVar(&o.procs, "procs", 12, "specs that run at a time, if they may run in parallel; most of them wait most of the time")
	flags.IntVar(&o.retries, "retries", 1, "how often a spec that failed is run once more, alone")
	flags.DurationVar(&o.timeout, "timeout", 3*time.Hour, "time for the specs of each form")
	flags.BoolVar(&o.again, "again", false, "run also what has passed with these versions")
	flags.BoolVar(&o.allOnStock, "all-on-stock", false, "run on stock also what passes on Tripod")
	flags.BoolVar(&o.keep, "keep", os.Getenv("E2E_KEEP") != "", "leave the cluster")
	flags.StringVar(&o.results, "results", "bin/conformance-cluster", "directory for what passed, logs, and what the certification programme wants")
	flags.StringVar(&o.docs, "docs", "", "page to write")
	flags.BoolVar(&o.reportOnly, "report", false, "run nothing, and report what the latest runs have kept")
	err := framework.ParseFlags(flags, args)
	if err != nil {
		return nil, err
	}
	if o.forms, err = parseForms(*names); err != nil {
		return nil, err
	}
	if o.focus, err = regexp.Compile(*focus); err != nil {
		return nil, fmt.Errorf("-focus: %w", err)
	}
	if *sigs != "" {
		o.sigs = strings.Split(*sigs, ",")
	}
	return o, nil
}

func conformance(ctx context.Context, args []string) (err error) {
	o, err := parse(args)
	if err != nil {
		return err
	}
	if o.results, err = filepath.Abs(o.results); err != nil {
		return err
	}
	env, err := framework.New("conformance-cluster")
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, env.Close(false)) }()
	suite, err := e2esuite.Run{Name: "list", Dir: env.Dir, Labels: "Conformance"}.List(ctx, env)
	if err != nil {
		return err
	}
	wanted := o.choose(suite)
	if len(wanted) == 0 {
		return fmt.Errorf("none of the %d conformance specs is chosen", len(suite))
	}
	progress.Printf("%d of %d conformance specs", len(wanted), len(suite))
	var all map[form]*kept
	if o.reportOnly {
		all, err = o.latest()
	} else {
		all, err = o.runAll(ctx, env, suite, wanted)
	}
	if err != nil {
		return err
	}
	return o.report(all, suite, wanted)
}

// choose returns the names of the specs that the flags choose, sorted. suite says which must run alone.
func (o *options) choose(suite map[string]bool) []string {
	var chosen []string
	for _, spec := range slices.Sorted(maps.Keys(suite)) {
		if o.focus.MatchString(spec) && (o.sigs == nil || slices.Contains(o.sigs, e2esuite.GroupOf(spec))) {
			chosen = append(chosen, spec)
		}
	}
	return o.shard.of(chosen)
}

// runAll runs what has not passed yet, a form after the other, and returns the results of each.
func (o *options) runAll(ctx context.Context, env *framework.Environment, suite map[string]bool, wanted []string) (_ map[form]*kept, err error) {
	all := map[form]*kept{}
	c, err := startCluster(ctx)
	if err != nil {
		return nil, err
	}
	defer func() {
		if !o.keep {
			err = errors.Join(err, c.env.Down())
		}
	}()
	for _, f := range o.forms {
		k, err := openKept(o.results, f, c.versionOf(f), c.nodeVersion)
		if err != nil {
			return nil, err
		}
		all[f] = k
		missing := o.neededIn(f, all, wanted)
		if !o.again {
			missing = k.Missing(missing)
		}
		if len(missing) == 0 {
			progress.Printf("%s %s: nothing is left to run", f, k.Version)
			continue
		}
		if err := c.use(ctx, f); err != nil {
			return nil, errors.Join(err, c.env.Collect())
		}
		run := func(ctx context.Context) error { return o.run(ctx, env, c, k, missing, suite) }
		if f == rollingForm {
			err = errors.Join(c.roller(k.Runs).during(ctx, k.Rolls, run), k.Save())
		} else {
			err = run(ctx)
		}
		if err != nil {
			return nil, err
		}
	}
	return all, nil
}

// latest returns what the latest run of each form has kept, whatever its version.
func (o *options) latest() (map[form]*kept, error) {
	all := map[form]*kept{}
	for _, f := range o.forms {
		k, err := latestKept(o.results, f)
		if err != nil {
			return nil, err
		}
		all[f] = k
	}
	return all, nil
}

// neededIn returns the specs whose result in a form matters. What passes on Tripod need not run on stock, which comes last.
func (o *options) neededIn(f form, all map[form]*kept, wanted []string) []string {
	if f != stockForm || o.allOnStock || len(all) == 1 {
		return wanted
	}
	return slices.DeleteFunc(slices.Clone(wanted), func(spec string) bool {
		for other, k := range all {
			if other != stockForm && !k.Results[spec].Passed() {
				return false
			}
		}
		return true
	})
}

// run runs specs in a form: those that may run in parallel, then the others, and then once more, alone, those that failed, but for those that
// the kubelets are too old for.
func (o *options) run(ctx context.Context, env *framework.Environment, c *cluster, k *kept, missing []string, suite map[string]bool) error {
	var parallel, serial []string
	for _, spec := range missing {
		if suite[spec] {
			serial = append(serial, spec)
		} else {
			parallel = append(parallel, spec)
		}
	}
	progress.Printf("%s %s: %d specs in %d processes, %d one by one", k.Form, k.Version, len(parallel), o.procs, len(serial))
	ran, left := 0, len(missing)
	type part struct {
		name  string
		specs []string
		procs int
	}
	parts := []part{{"parallel", parallel, o.procs}, {"serial", serial, 1}}
	for range o.retries {
		parts = append(parts, part{"again", nil, 1})
	}
	for _, part := range parts {
		if part.name == "again" {
			part.specs = slices.DeleteFunc(k.Missing(missing), func(spec string) bool {
				_, newer := needsNewerKubelet(spec, c.nodeVersion)
				return newer
			})
			left = len(part.specs)
			ran = 0
		}
		if len(part.specs) == 0 {
			continue
		}
		number, err := k.NextRun()
		if err != nil {
			return err
		}
		found, err := e2esuite.Run{
			Name: fmt.Sprintf("%02d-%s", number, part.name), Dir: k.Dir, Kubeconfig: c.Kubeconfig,
			Focus: e2esuite.Exactly(part.specs), Procs: part.procs, Attempts: 1, Timeout: o.timeout,
			Ended: func(e e2esuite.Ended) {
				ran++
				progress.Printf("%s %d/%d %s %s", k.Form, ran, left, e.Outcome, e.Name)
				k.Ended(e, part.specs)
			},
		}.Do(ctx, env)
		if err != nil {
			return errors.Join(err, k.Err)
		}
		if err := k.Add(found); err != nil {
			return err
		}
	}
	return nil
}

// report compares each form with stock, and writes what is complete.
func (o *options) report(all map[form]*kept, suite map[string]bool, wanted []string) error {
	differ := 0
	stock := all[stockForm]
	for _, f := range o.forms {
		k := all[f]
		if err := k.certify(suite); err != nil {
			return err
		}
		ran := k.Of(wanted)
		fmt.Printf("\n%s %s: %d of %d specs pass, %d have not run; logs are in %s\n", f, k.Version, ran.Count(), len(ran), len(wanted)-len(ran), k.Dir)
		if f == rollingForm {
			fmt.Printf("rolls meanwhile: %s\n", rolls(k.Rolls))
		}
		if f != stockForm && stock != nil {
			differ += e2esuite.Compare(os.Stdout, string(f), stock.Of(wanted), k.Of(wanted))
		}
	}
	if o.docs != "" {
		if err := writeDocs(o.docs, all, suite); err != nil {
			return err
		}
	}
	if differ > 0 {
		return errDiffers
	}
	return nil
}
