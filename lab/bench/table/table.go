// Copyright The Tripod Authors.
// SPDX-License-Identifier: Apache-2.0

// Package table writes what was measured, as text and as Markdown.
package table

import (
	"fmt"
	"io"
	"os"
	"slices"
	"strings"
	"text/template"

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

// WritePage writes a Markdown file from a template.
func WritePage(path, text string, data any) error {
	parsed, err := template.New("page").Parse(text)
	if err != nil {
		return err
	}
	file, err := os.Create(path)
	if err != nil {
		return fmt.Errorf("cannot write the page: %w", err)
	}
	defer file.Close() //nolint:errcheck // the error of Sync counts
	if err := parsed.Execute(file, data); err != nil {
		return err
	}
	return file.Sync()
}

// Median returns the median, or 0 if there is no number.
func Median(numbers []float64) float64 {
	if len(numbers) == 0 {
		return 0
	}
	sorted := slices.Sorted(slices.Values(numbers))
	return (sorted[(len(sorted)-1)/2] + sorted[len(sorted)/2]) / 2
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
