// Copyright The Tripod Authors.
// SPDX-License-Identifier: Apache-2.0

package e2esuite

import (
	"fmt"
	"io"
	"maps"
	"slices"
	"strings"
)

// failureLength is how much of a failure is printed.
const failureLength = 600

// Compare prints the counts and every difference. It returns how many specs pass only on stock. ours is the name of what is not stock.
func Compare(output io.Writer, ours string, onStock, onOurs Results) int {
	var stockOnly []string
	for _, spec := range slices.Sorted(maps.Keys(onStock)) {
		theirs, own := onStock[spec], onOurs[spec]
		switch {
		case theirs.Passed() && !own.Passed():
			stockOnly = append(stockOnly, spec)
			fmt.Fprintf(output, "\npasses on stock, %s on %s: %s\n  %s\n", own.State, ours, spec, short(own.Failure))
		case !theirs.Passed() && own.Passed():
			fmt.Fprintf(output, "\npasses on %s, %s on stock: %s\n  %s\n", ours, theirs.State, spec, short(theirs.Failure))
		case theirs.Attempts != own.Attempts:
			fmt.Fprintf(output, "\nattempts %d on stock, %d on %s: %s\n", theirs.Attempts, own.Attempts, ours, spec)
		}
	}
	fmt.Fprintf(output, "\nstock:  %d of %d specs pass, %s\n", onStock.Count(), len(onStock), onStock.Took())
	fmt.Fprintf(output, "%s: %d of %d specs pass, %s\n", ours, onOurs.Count(), len(onOurs), onOurs.Took())
	return len(stockOnly)
}

// short returns the beginning of a failure, indented.
func short(failure string) string {
	if len(failure) > failureLength {
		failure = failure[:failureLength] + "..."
	}
	return strings.ReplaceAll(failure, "\n", "\n  ")
}
