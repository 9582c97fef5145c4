// Copyright The Tripod Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"fmt"
	"io"
	"maps"
	"os"
	"slices"

	"github.com/tripod-k8s/tripod/lab/e2esuite"
)

// compareClusters runs the specs of the list on Tripod, and on stock if its results are unknown.
func compareClusters(ctx context.Context, o *options) error {
	list, err := readList(o.list)
	if err != nil {
		return err
	}
	suite, err := suiteSpecs(ctx)
	if err != nil {
		return err
	}
	for _, spec := range list {
		if !slices.Contains(suite, spec) {
			return fmt.Errorf("the suite has no %q; is the list of this version? (make conformance-refresh)", spec)
		}
	}
	wanted := o.choose(list)
	if len(wanted) == 0 {
		return fmt.Errorf("%s has no such specs", o.list)
	}
	wanted, refused := withoutRefused(wanted)
	again := (*e2esuite.Kept).Missing
	onStock, err := runner{attempts: 2, again: again}.results(ctx, o, stock, suite, wanted)
	if err != nil {
		return err
	}
	if o.again {
		again = all
	}
	onTripod, err := runner{attempts: 2, again: again}.results(ctx, o, tripod, suite, wanted)
	if err != nil {
		return err
	}
	if err := confirm(ctx, o, suite, onStock, onTripod); err != nil {
		return err
	}
	differ := e2esuite.Compare(os.Stdout, "Tripod", onStock, onTripod)
	printCounts(os.Stdout, o.choose(suite), onStock, onTripod)
	for _, spec := range refused {
		fmt.Printf("Tripod refuses the setting of %s: %s\n", spec, settingOf(spec).refused)
	}
	if differ > 0 {
		return errDiffers
	}
	return nil
}

// confirmations is how often a spec that fails on Tripod has to pass again on stock.
const confirmations = 3

// confirm runs on stock once more what passes only there, and corrects onStock. A spec that fails then needs luck, and shows nothing about
// Tripod.
func confirm(ctx context.Context, o *options, suite []string, onStock, onTripod e2esuite.Results) error {
	for range confirmations {
		var suspects []string
		for _, spec := range slices.Sorted(maps.Keys(onStock)) {
			if onStock[spec].Passed() && !onTripod[spec].Passed() {
				suspects = append(suspects, spec)
			}
		}
		found, err := runner{attempts: 1, again: all}.results(ctx, o, stock, suite, suspects)
		if err != nil {
			return err
		}
		maps.Copy(onStock, found)
	}
	return nil
}

// all is set if all specs have to run.
func all(_ *e2esuite.Kept, specs []string) []string { return specs }

// withoutRefused divides specs into those that Tripod can run and those whose setting it refuses.
func withoutRefused(specs []string) (runs, refused []string) {
	for _, spec := range specs {
		if settingOf(spec).refused == "" {
			runs = append(runs, spec)
		} else {
			refused = append(refused, spec)
		}
	}
	return runs, refused
}

// printCounts prints a table of how many specs the suite has, and how many pass.
func printCounts(output io.Writer, suite []string, onStock, onTripod e2esuite.Results) {
	total, passed := map[string]int{}, map[string]map[string]int{stock: {}, tripod: {}}
	for _, spec := range suite {
		total[e2esuite.GroupOf(spec)]++
	}
	for side, found := range map[string]e2esuite.Results{stock: onStock, tripod: onTripod} {
		for spec, result := range found {
			if result.Passed() {
				passed[side][e2esuite.GroupOf(spec)]++
			}
		}
	}
	fmt.Fprintln(output, "\n| group | specs of the suite | stock passes | Tripod passes |\n|---|---:|---:|---:|")
	for _, group := range slices.Sorted(maps.Keys(total)) {
		fmt.Fprintf(output, "| %s | %d | %d | %d |\n", group, total[group], passed[stock][group], passed[tripod][group])
	}
}
