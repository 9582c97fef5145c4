// Copyright The Tripod Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"slices"

	"github.com/onsi/ginkgo/v2/types"

	"github.com/tripod-k8s/tripod/test/framework/e2esuite"
	"github.com/tripod-k8s/tripod/test/framework/stockcache"
)

// refresh runs the conformance specs of the groups on stock, and lists those that pass at the first attempt.
func refresh(ctx context.Context, o *options) (err error) {
	list, err := readList(o.list)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	known, err := stockcache.Open(ctx, cacheDir, stockBinary)
	if err != nil {
		return err
	}
	c, err := startCluster(ctx, stock)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, c.close()) }()
	for _, group := range o.groups {
		found, err := c.run(ctx, e2esuite.Run{
			Name: group, Focus: `\[` + group + `\].*(` + o.focus.String() + `).*\[Conformance\]`,
			Procs: o.procs, Attempts: 1, Timeout: o.timeout,
		})
		if err != nil {
			return err
		}
		ran := slices.Collect(maps.Keys(found))
		maps.DeleteFunc(found, func(_ string, r e2esuite.Result) bool { return r.State != types.SpecStatePassed || r.Attempts > 1 })
		passed := slices.Collect(maps.Keys(found))
		fmt.Printf("%s: %d of %d specs pass on stock\n", group, len(passed), len(ran))
		if list = replaced(list, ran, passed); len(found) > 0 {
			if err := known.Put(passed, found); err != nil {
				return err
			}
		}
		if err := writeList(o.list, list); err != nil {
			return err
		}
	}
	return nil
}
