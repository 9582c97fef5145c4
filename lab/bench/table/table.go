// Copyright The Tripod Authors.
// SPDX-License-Identifier: Apache-2.0

// Package table writes what was measured, as text and as Markdown.
package table

import (
	"fmt"
	"io"
	"slices"
	"strings"

	"k8s.io/cli-runtime/pkg/printers"
)

// Table is a table for people.
type Table struct {
	Title  string
	Header []string
	Rows   [][]string
}

// Write writes tables as plain text.
func Write(w io.Writer, tables []Table) error {
	for _, t := range tables {
		fmt.Fprintf(w, "\n%s\n\n", t.Title)
		aligned := printers.GetNewTabWriter(w)
		for _, cells := range append([][]string{t.Header}, t.Rows...) {
			fmt.Fprintln(aligned, strings.Join(cells, "\t"))
		}
		if err := aligned.Flush(); err != nil {
			return err
		}
	}
	return nil
}

// Markdown returns the table as Markdown.
func (t Table) Markdown() string {
	var text strings.Builder
	line := func(cells []string) { fmt.Fprintf(&text, "| %s |\n", strings.Join(cells, " | ")) }
	line(t.Header)
	line(slices.Repeat([]string{"---"}, len(t.Header)))
	for _, cells := range t.Rows {
		line(cells)
	}
	return text.String()
}

// Ratio formats a ratio. It is empty if there is nothing to compare with.
func Ratio(ours, theirs float64) string {
	if theirs == 0 {
		return ""
	}
	return fmt.Sprintf("×%.2f", ours/theirs)
}

// Number formats a number with about three digits.
func Number(n float64) string {
	switch {
	case n == 0:
		return "-"
	case n < 10:
		return fmt.Sprintf("%.2f", n)
	case n < 100:
		return fmt.Sprintf("%.1f", n)
	}
	return fmt.Sprintf("%.0f", n)
}
