// Copyright The Tripod Authors.
// SPDX-License-Identifier: Apache-2.0

// Command operators runs the integration tests of operators and controllers, unchanged, with a stock kube-apiserver and with Tripod in its
// place, and compares them test by test. It exits with 1 if a test passes on stock and not on Tripod.
//
// The tests start their API servers by controller-runtime's envtest, which finds the programs by environment variables. projects.yaml lists
// the projects. The command fetches their sources at the commits of that list, builds the tests of each package once, and runs them on both
// sides. It keeps what has passed by version in bin/operators, so that it can be interrupted and run in parts.
//
// With -partitions, extensions of Tripod is in three parts.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"time"

	"github.com/tripod-k8s/tripod/e2e/progress"
	"github.com/tripod-k8s/tripod/test/framework"
)

// errDiffers is returned after the differences are printed.
var errDiffers = errors.New("tests that pass on stock do not pass on Tripod")

// options are the flags of the command.
type options struct {
	only    *regexp.Regexp
	sources string
	results string
	docs    string
	again   bool
	report  bool
	starts  int
	timeout time.Duration
	// divided runs Tripod with the partitions of each project.
	divided bool
}

func main() { framework.RunCommand("operators", operators) }

func parse(args []string) (*options, error) {
	o := &options{}
	flags := flag.NewFlagSet("operators", flag.ContinueOnError)
	only := flags.String("only", "", "run only packages whose name with that of the project, such as Kueue/test/integration, matches this regular expression")
	flags.StringVar(&o.sources, "sources", os.Getenv("OPERATORS_SOURCES"),
		"directory with git repositories, named as in the addresses of projects.yaml, such as cluster-api; empty means to fetch from these addresses")
	flags.StringVar(&o.results, "results", "bin/operators", "directory for sources, results and logs")
	flags.StringVar(&o.docs, "docs", "", "page to write")
	flags.BoolVar(&o.again, "again", false, "run on Tripod also what has passed with this version")
	flags.BoolVar(&o.divided, "partitions", false, "divide extensions of Tripod into three parts, and run the projects whose partitions projects.yaml has")
	flags.BoolVar(&o.report, "report", false, "run nothing, and report what the latest runs have kept")
	flags.IntVar(&o.starts, "starts", 5, "how often to measure the start of an API server on each side; 0 keeps what was measured")
	flags.DurationVar(&o.timeout, "timeout", 40*time.Minute, "time for the tests of one package on one side")
	err := framework.ParseFlags(flags, args)
	if err != nil {
		return nil, err
	}
	if o.only, err = regexp.Compile(*only); err != nil {
		return nil, fmt.Errorf("-only: %w", err)
	}
	o.results, err = filepath.Abs(o.results)
	return o, err
}

func operators(ctx context.Context, args []string) error {
	o, err := parse(args)
	if err != nil {
		return err
	}
	projects, err := readProjects(projectsFile)
	if err != nil {
		return err
	}
	var both [2]*kept
	if o.report {
		both, err = latest(o.results, o.divided)
	} else {
		both, err = o.runAll(ctx, projects)
	}
	if err != nil {
		return err
	}
	table := compare(projects, both)
	if o.docs != "" {
		if err := o.write(projects, table); err != nil {
			return err
		}
	}
	if table.print(os.Stdout) > 0 {
		return errDiffers
	}
	return nil
}

// write writes the page, which has what was run with partitions and without. What did not run now comes from earlier runs.
func (o *options) write(projects []project, table *table) error {
	both, err := latest(o.results, !o.divided)
	if errors.Is(err, errNothingRan) && !o.divided {
		return writeDocs(o.docs, page{table: table})
	}
	if err != nil {
		return err
	}
	other := compare(projects, both)
	if o.divided {
		return writeDocs(o.docs, page{table: other, Divided: table})
	}
	return writeDocs(o.docs, page{table: table, Divided: other})
}

// runAll runs the chosen packages on both sides, as far as their results are not known.
func (o *options) runAll(ctx context.Context, projects []project) (both [2]*kept, err error) {
	sides, end, err := openSides(ctx, o.divided)
	if err != nil {
		return both, err
	}
	defer func() { err = errors.Join(err, end()) }()
	for i, s := range sides {
		if both[i], err = openKept(o.results, s.name, s.version); err != nil {
			return both, err
		}
	}
	if o.starts > 0 && !o.divided {
		if err := measureStarts(ctx, o.starts, sides, both); err != nil {
			return both, err
		}
	}
	for _, p := range projects {
		chosen := slices.DeleteFunc(slices.Clone(p.Packages), func(name string) bool { return !o.only.MatchString(p.Name + "/" + name) })
		if len(chosen) == 0 || o.divided && len(p.Partitions) == 0 {
			continue
		}
		if err := o.runProject(ctx, p, chosen, sides, both); err != nil {
			return both, fmt.Errorf("%s: %w", p.Name, err)
		}
	}
	return both, nil
}

func (o *options) runProject(ctx context.Context, p project, packages []string, sides [2]*side, both [2]*kept) error {
	var tree *checkout
	for number, name := range packages {
		missing := o.missing(p, name, both)
		if len(missing) == 0 {
			continue
		}
		if tree == nil {
			var err error
			if tree, err = openSources(ctx, p, o.sources, o.results, sides[stock].assets); err != nil {
				return err
			}
		}
		tests, err := tree.build(ctx, name)
		if err != nil {
			return err
		}
		for _, i := range missing {
			found, err := tests.run(ctx, sides[i], o.timeout)
			if err != nil {
				return err
			}
			progress.Printf("%s %d/%d %s on %s: %s", p.Name, number+1, len(packages), name, sides[i].name, found)
			if err := both[i].put(p, name, found); err != nil {
				return err
			}
		}
		if err := os.Remove(tests.path); err != nil {
			return err
		}
	}
	return nil
}

// missing returns the sides on which a package has to run. What failed on Tripod and not on stock runs again.
func (o *options) missing(p project, name string, both [2]*kept) (sides []int) {
	onStock, onTripod := both[stock].get(p, name), both[tripod].get(p, name)
	if onStock == nil {
		sides = append(sides, stock)
	}
	if onStock == nil || onTripod == nil || o.again || len(stockOnly(onStock, onTripod)) > 0 {
		sides = append(sides, tripod)
	}
	return sides
}
