// Copyright The Tripod Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	_ "embed"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/tripod-k8s/tripod/test/framework/e2esuite"
)

//go:embed conformance.md.tmpl
var page string

// column is a form in a table.
type column struct {
	Name, Version string
	Passed        int
	Took          string
}

// row is a special interest group in a table, with a count for each form.
type row struct {
	Group  string
	Total  int
	Passed []int
}

// open is a spec that does not pass in every form.
type open struct {
	Spec, Reason string
	// Passed are the forms in which it passes.
	Passed []string
}

// writeDocs writes the page, if every spec has run in every form.
func writeDocs(path string, all map[form]*kept, suite map[string]bool) error {
	names := slices.Sorted(maps.Keys(suite))
	var columns []column
	var forms []*kept
	for _, f := range allForms {
		k := all[f]
		if k == nil || len(k.of(names)) < len(names) {
			return fmt.Errorf("%s stays as it is: not every spec has run as %s", path, f)
		}
		forms = append(forms, k)
		some := k.of(names)
		columns = append(columns, column{string(f), k.Version, some.Count(), some.Took().String()})
	}
	return writeTemplate(path, page, map[string]any{
		"Columns": columns, "Rows": rows(names, forms), "Open": openSpecs(names, forms), "Total": len(names), "Node": forms[0].Node,
	})
}

func rows(names []string, forms []*kept) []*row {
	byGroup := map[string]*row{}
	for _, name := range names {
		group := e2esuite.GroupOf(name)
		if byGroup[group] == nil {
			byGroup[group] = &row{Group: group, Passed: make([]int, len(forms))}
		}
		r := byGroup[group]
		r.Total++
		for i, k := range forms {
			if k.Results[name].Passed() {
				r.Passed[i]++
			}
		}
	}
	var sorted []*row
	for _, group := range slices.Sorted(maps.Keys(byGroup)) {
		sorted = append(sorted, byGroup[group])
	}
	return sorted
}

func openSpecs(names []string, forms []*kept) []open {
	var found []open
	for _, name := range names {
		var passed []string
		failure := ""
		for _, k := range forms {
			if result := k.Results[name]; result.Passed() {
				passed = append(passed, string(k.Form))
			} else {
				failure = result.Failure
			}
		}
		if len(passed) < len(forms) {
			found = append(found, open{Spec: strings.TrimSuffix(name, " "+e2esuite.Suffix), Reason: reasonFor(name, failure), Passed: passed})
		}
	}
	return found
}

func firstLine(text string) string {
	line, _, _ := strings.Cut(strings.TrimSpace(text), "\n")
	return strings.TrimSuffix(line, ":")
}
