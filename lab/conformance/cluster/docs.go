// Copyright The Tripod Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	_ "embed"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/tripod-k8s/tripod/lab/e2esuite"
)

//go:embed conformance.md.tmpl
var page string

// column is a form in a table.
type column struct {
	Name, Version string
	Took          string
}

// row has what passed of a special interest group, or of all, in each form.
type row struct {
	Group  string
	Total  int
	Passed []string
}

// open is a spec that does not pass in every form in which it ran.
type open struct {
	Spec, Reason string
	// Failed are the forms in which it does not pass.
	Failed []string
}

// retried is a spec that passed only when it ran again.
type retried struct {
	Spec     string
	Form     form
	Attempts int
	// Failure is how it failed before.
	Failure string
}

// writeDocs writes the page with the results of these forms.
func writeDocs(path string, all map[form]*kept, suite map[string]bool) error {
	names := slices.Sorted(maps.Keys(suite))
	var columns []column
	var forms []*kept
	var notRun []form
	for _, f := range allForms {
		if k := all[f]; k != nil {
			forms = append(forms, k)
			columns = append(columns, column{string(f), k.Version, k.Of(names).Took().String()})
		} else {
			notRun = append(notRun, f)
		}
	}
	return writeTemplate(path, page, map[string]any{
		"Columns": columns, "Whole": rowOf("all", names, forms, "**%d** of %d"), "Rows": rows(names, forms),
		"Open": openSpecs(names, forms), "Total": len(names), "Node": forms[0].Node, "Rolls": rollsOf(all[rollingForm]), "Retried": retriedSpecs(names, forms),
		"NotRun": notRun,
	})
}

// rollsOf returns how often replicas were restarted, or nothing.
func rollsOf(k *kept) string {
	if k == nil || len(k.Rolls) == 0 {
		return ""
	}
	return rolls(k.Rolls).String()
}

func rows(names []string, forms []*kept) []row {
	byGroup := map[string][]string{}
	for _, name := range names {
		group := e2esuite.GroupOf(name)
		byGroup[group] = append(byGroup[group], name)
	}
	var sorted []row
	for _, group := range slices.Sorted(maps.Keys(byGroup)) {
		sorted = append(sorted, rowOf(group, byGroup[group], forms, "%d of %d"))
	}
	return sorted
}

func rowOf(group string, names []string, forms []*kept, format string) row {
	r := row{Group: group, Total: len(names)}
	for _, k := range forms {
		text := "not run"
		if some := k.Of(names); len(some) > 0 {
			text = fmt.Sprintf(format, some.Count(), len(some))
		}
		r.Passed = append(r.Passed, text)
	}
	return r
}

func openSpecs(names []string, forms []*kept) []open {
	var found []open
	for _, name := range names {
		var failed []string
		failure := ""
		for _, k := range forms {
			if result, ran := k.Results[name]; ran && !result.Passed() {
				failed = append(failed, k.Form)
				failure = result.Failure
			}
		}
		if len(failed) > 0 {
			found = append(found, open{Spec: strings.TrimSuffix(name, " [Conformance]"), Reason: reasonFor(name, forms[0].Node, failure), Failed: failed})
		}
	}
	return found
}

func retriedSpecs(names []string, forms []*kept) []retried {
	var found []retried
	for _, k := range forms {
		for _, name := range names {
			if result := k.Results[name]; result.Passed() && result.Attempts > 1 {
				found = append(found, retried{strings.TrimSuffix(name, " [Conformance]"), k.form(), result.Attempts, firstLine(result.Failure)})
			}
		}
	}
	return found
}

func firstLine(text string) string {
	line, _, _ := strings.Cut(strings.TrimSpace(text), "\n")
	return strings.TrimSuffix(line, ":")
}
