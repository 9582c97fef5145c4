// Copyright The Tripod Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"fmt"
	"io"
	"maps"
	"slices"
	"strings"
	"time"
)

// table is what is compared: the packages that ran on both sides.
type table struct {
	Sides [2]*kept
	Rows  []row
	// Open are the tests that fail on a side, Flaky those that passed only when they ran once more.
	Open, Flaky []open
}

// row is a project.
type row struct {
	Project         string
	Version         string
	Repository      string
	Packages, Tests int
	Passed          [2]int
	// Versions are those of the API servers of each side.
	Versions [2][]string
	Took     [2]time.Duration
}

// open is a test that does not pass, or not at once, on these sides.
type open struct {
	Project, Package, Test string
	Sides                  string
	Reason                 string
	// stockOnly is whether the test passes on stock.
	stockOnly bool
	failure   string
}

func compare(projects []project, both [2]*kept) *table {
	t := &table{Sides: both}
	for _, p := range projects {
		r := row{Project: p.Name, Version: p.Version, Repository: p.Repository}
		for _, name := range p.Packages {
			onStock, onTripod := both[stock].get(p, name), both[tripod].get(p, name)
			if onStock == nil || onTripod == nil {
				continue
			}
			r.Packages++
			r.Tests += len(onStock.Tests)
			for i, side := range []*results{onStock, onTripod} {
				r.Passed[i] += side.passed()
				if !slices.Contains(r.Versions[i], side.version) {
					r.Versions[i] = append(r.Versions[i], side.version)
				}
				r.Took[i] += side.Took
			}
			t.addOpen(p, name, onStock, onTripod)
		}
		if r.Packages > 0 {
			t.Rows = append(t.Rows, r)
		}
	}
	return t
}

// addOpen adds what did not pass at once on both sides.
func (t *table) addOpen(p project, name string, onStock, onTripod *results) {
	all := maps.Clone(onStock.Tests)
	maps.Copy(all, onTripod.Tests)
	for _, test := range slices.Sorted(maps.Keys(all)) {
		o := open{Project: p.Name, Package: name, Test: test}
		var failed, flaky []string
		for i, side := range []*results{onStock, onTripod} {
			switch one, ran := side.Tests[test]; {
			case !ran:
				failed = append(failed, t.Sides[i].Side+" (did not run)")
			case !one.Passed:
				failed = append(failed, t.Sides[i].Side)
				o.failure = one.Failure
			case one.Attempts > 1:
				flaky = append(flaky, t.Sides[i].Side)
			}
		}
		if len(failed) > 0 {
			o.Sides, o.stockOnly = strings.Join(failed, ", "), onStock.Tests[test].Passed
			if o.Reason = p.reasonFor(name + " " + test); o.Reason == "" {
				o.Reason = firstLine(o.failure)
			}
			t.Open = append(t.Open, o)
		}
		if len(flaky) > 0 {
			o.Sides = strings.Join(flaky, ", ")
			t.Flaky = append(t.Flaky, o)
		}
	}
}

// firstLine returns the beginning of a failure, as far as it fits into a table.
func firstLine(failure string) string {
	const most = 200
	line, _, _ := strings.Cut(failure, "\n")
	if runes := []rune(line); len(runes) > most {
		return string(runes[:most]) + " ..."
	}
	return line
}

// stockOnly returns the tests that pass on stock and not on Tripod, sorted.
func stockOnly(onStock, onTripod *results) []string {
	return slices.DeleteFunc(slices.Sorted(maps.Keys(onStock.Tests)), func(name string) bool {
		return !onStock.Tests[name].Passed || onTripod.Tests[name].Passed
	})
}

// print prints the counts and every difference. It returns how many tests pass only on stock.
func (t *table) print(output io.Writer) int {
	differences := 0
	for _, o := range t.Open {
		if o.stockOnly {
			differences++
		}
		fmt.Fprintf(output, "\nfails on %s: %s %s %s\n  %s\n", o.Sides, o.Project, o.Package, o.Test, strings.ReplaceAll(o.failure, "\n", "\n  "))
	}
	for _, o := range t.Flaky {
		fmt.Fprintf(output, "\npassed on %s when it ran once more: %s %s %s\n", o.Sides, o.Project, o.Package, o.Test)
	}
	fmt.Fprintln(output)
	for _, r := range t.Rows {
		fmt.Fprintf(output, "%s %s: %d tests in %d packages", r.Project, r.Version, r.Tests, r.Packages)
		for i, side := range t.Sides {
			fmt.Fprintf(output, "; %s: %d passed in %s", side.Side, r.Passed[i], r.Took[i].Round(time.Second))
		}
		fmt.Fprintln(output)
	}
	return differences
}
