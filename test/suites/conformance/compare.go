// Copyright The Tripod Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"os"
	"slices"

	"github.com/tripod-k8s/tripod/test/framework/e2esuite"
	"github.com/tripod-k8s/tripod/test/framework/stockcache"
)

// The clusters that are compared.
const (
	stock  = "stock"
	tripod = "tripod"
)

const (
	cacheDir    = "bin/conformance"
	stockBinary = "bin/test-assets/kube-apiserver"
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
	onTripod, err := resultsOf(ctx, o, tripod, wanted, func(string, e2esuite.Results) error { return nil })
	if err != nil {
		return err
	}
	if differ := e2esuite.Compare(os.Stdout, "Tripod", onStock, onTripod); differ > 0 {
		return errDiffers
	}
	return nil
}

// stockResults returns the results of stock. It runs the specs whose results are unknown.
func stockResults(ctx context.Context, o *options, known *stockcache.Cache, wanted map[string][]string) (e2esuite.Results, error) {
	all, unknown := e2esuite.Results{}, map[string][]string{}
	for group, specs := range wanted {
		var found e2esuite.Results
		isKnown, err := known.Get(specs, &found)
		if err != nil {
			return nil, err
		}
		if !isKnown {
			unknown[group] = specs
		}
		maps.Copy(all, found)
	}
	found, err := resultsOf(ctx, o, stock, unknown, func(group string, found e2esuite.Results) error {
		return known.Put(unknown[group], found)
	})
	maps.Copy(all, found)
	return all, err
}

// resultsOf runs the specs, a group at a time, and calls done with the results of each.
func resultsOf(
	ctx context.Context, o *options, name string, wanted map[string][]string, done func(string, e2esuite.Results) error,
) (_ e2esuite.Results, err error) {
	if len(wanted) == 0 {
		return e2esuite.Results{}, nil
	}
	c, err := startCluster(ctx, name)
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, c.close()) }()
	all := e2esuite.Results{}
	for _, group := range slices.Sorted(maps.Keys(wanted)) {
		found, err := c.run(ctx, e2esuite.Run{Name: group, Focus: e2esuite.Exactly(wanted[group]), Procs: o.procs, Attempts: 2, Timeout: o.timeout})
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
