// Copyright The Tripod Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"maps"
	"os"
	"slices"
	"strings"
	"time"

	"github.com/tripod-k8s/tripod/test/framework/stockcache"
)

// The clusters that are compared.
const (
	stock  = "stock"
	tripod = "tripod"
)

const (
	cacheDir      = "bin/conformance"
	stockBinary   = "bin/test-assets/kube-apiserver"
	failureLength = 600
)

// compareClusters runs the specs of the list on Tripod, and on stock if its results are unknown.
func compareClusters(ctx context.Context, o *options) error {
	list, err := readList(o.list)
	if err != nil {
		return err
	}
	wanted := map[string][]string{}
	for _, group := range o.groups {
		if specs := selected(list, group, o.focus); len(specs) > 0 {
			wanted[group] = specs
		}
	}
	if len(wanted) == 0 {
		return fmt.Errorf("%s has no such specs", o.list)
	}
	known, err := stockcache.Open(ctx, cacheDir, stockBinary)
	if err != nil {
		return err
	}
	onStock, err := stockResults(ctx, o, known, wanted)
	if err != nil {
		return err
	}
	onTripod, err := resultsOf(ctx, o, tripod, wanted, func(string, results) error { return nil })
	if err != nil {
		return err
	}
	if differ := report(os.Stdout, onStock, onTripod); differ > 0 {
		return errDiffers
	}
	return nil
}

// stockResults returns the results of stock. It runs the specs whose results are unknown.
func stockResults(ctx context.Context, o *options, known *stockcache.Cache, wanted map[string][]string) (results, error) {
	all, unknown := results{}, map[string][]string{}
	for group, specs := range wanted {
		var found results
		isKnown, err := known.Get(specs, &found)
		if err != nil {
			return nil, err
		}
		if !isKnown {
			unknown[group] = specs
		}
		maps.Copy(all, found)
	}
	found, err := resultsOf(ctx, o, stock, unknown, func(group string, found results) error {
		return known.Put(unknown[group], found)
	})
	maps.Copy(all, found)
	return all, err
}

// resultsOf runs the specs, a group at a time, and calls done with the results of each.
func resultsOf(
	ctx context.Context, o *options, name string, wanted map[string][]string, done func(string, results) error,
) (_ results, err error) {
	if len(wanted) == 0 {
		return results{}, nil
	}
	c, err := startCluster(ctx, name)
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, c.close()) }()
	all := results{}
	for _, group := range slices.Sorted(maps.Keys(wanted)) {
		found, err := c.run(ctx, run{group: group, focus: exactly(wanted[group]), procs: o.procs, attempts: 2, timeout: o.timeout})
		if err != nil {
			return nil, err
		}
		for _, spec := range wanted[group] {
			if _, ran := found[spec]; !ran {
				return nil, fmt.Errorf("%s did not run %q; is the list of this version? (make conformance-refresh)", name, spec)
			}
		}
		if err := done(group, found); err != nil {
			return nil, err
		}
		maps.Copy(all, found)
	}
	return all, nil
}

// report prints the counts and every difference. It returns how many specs pass only on stock.
func report(output io.Writer, onStock, onTripod results) int {
	var stockOnly []string
	for _, spec := range slices.Sorted(maps.Keys(onStock)) {
		theirs, ours := onStock[spec], onTripod[spec]
		switch {
		case theirs.passed() && !ours.passed():
			stockOnly = append(stockOnly, spec)
			fmt.Fprintf(output, "\npasses on stock, %s on Tripod: %s\n  %s\n", ours.State, spec, short(ours.Failure))
		case !theirs.passed() && ours.passed():
			fmt.Fprintf(output, "\npasses on Tripod, %s on stock: %s\n  %s\n", theirs.State, spec, short(theirs.Failure))
		case theirs.Attempts != ours.Attempts:
			fmt.Fprintf(output, "\nattempts %d on stock, %d on Tripod: %s\n", theirs.Attempts, ours.Attempts, spec)
		}
	}
	fmt.Fprintf(output, "\nstock:  %d of %d specs pass, %s\n", onStock.count(), len(onStock), onStock.took())
	fmt.Fprintf(output, "Tripod: %d of %d specs pass, %s\n", onTripod.count(), len(onTripod), onTripod.took())
	return len(stockOnly)
}

// took returns the sum of the times of all specs.
func (r results) took() time.Duration {
	var sum time.Duration
	for _, one := range r {
		sum += one.Took
	}
	return sum.Round(time.Second)
}

// short returns the beginning of a failure, indented.
func short(failure string) string {
	if len(failure) > failureLength {
		failure = failure[:failureLength] + "..."
	}
	return strings.ReplaceAll(failure, "\n", "\n  ")
}
