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

	"github.com/tripod-k8s/tripod/lab/e2esuite"
)

// refresh runs specs of the suite on stock, and lists those that pass. What ran before with this version need not run again.
func refresh(ctx context.Context, o *options) error {
	list, err := readList(o.list)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	suite, err := suiteSpecs(ctx)
	if err != nil {
		return err
	}
	wanted := o.choose(suite)
	again := (*e2esuite.Kept).Unknown
	if o.again {
		again = (*e2esuite.Kept).Missing
	}
	found, err := runner{attempts: 1, again: again}.results(ctx, o, stock, suite, wanted)
	ran := slices.Collect(maps.Keys(found))
	maps.DeleteFunc(found, func(_ string, r e2esuite.Result) bool { return !r.Passed() })
	fmt.Printf("%d of %d specs pass on stock, %d have not run\n", len(found), len(ran), len(wanted)-len(ran))
	return errors.Join(err, writeList(o.list, replaced(list, suite, ran, slices.Collect(maps.Keys(found)))))
}
