// Copyright The Tripod Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"fmt"
	"io"
	"maps"
	"slices"
	"strings"
)

// report prints the counts and every difference. It returns how many tests pass only on stock.
func report(output io.Writer, onStock, onTripod results) int {
	stockOnly := 0
	for _, name := range slices.Sorted(maps.Keys(onStock)) {
		theirs := onStock[name]
		ours, ran := onTripod[name]
		switch {
		case theirs.Passed && !ran:
			stockOnly++
			fmt.Fprintf(output, "\npasses on stock, did not run on Tripod: %s\n", name)
		case theirs.Passed && !ours.Passed:
			stockOnly++
			fmt.Fprintf(output, "\npasses on stock, fails on Tripod: %s\n%s\n", name, indent(ours.Output))
		case !theirs.Passed && ours.Passed:
			fmt.Fprintf(output, "\npasses on Tripod, fails on stock: %s\n%s\n", name, indent(theirs.Output))
		case !theirs.Passed:
			fmt.Fprintf(output, "\nfails on both: %s\n", name)
		}
	}
	fmt.Fprintf(output, "\nstock:  %d of %d tests pass\n", onStock.count(), len(onStock))
	fmt.Fprintf(output, "Tripod: %d of %d tests pass\n", onTripod.count(), len(onTripod))
	return stockOnly
}

func indent(text string) string { return "  " + strings.ReplaceAll(text, "\n", "\n  ") }
