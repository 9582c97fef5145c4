// Copyright The Tripod Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"bytes"
	_ "embed"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"text/template"
	"time"

	"github.com/tripod-k8s/tripod/lab/bench/graph"
)

const (
	graphFile = "benchmarks-crds.svg"
	// window is the length of time that each point of the graph covers: 500 reads and 100 writes.
	window = 5 * time.Second
	// notable is a difference of medians that two runs of the same side do not have.
	notable = 0.1
)

//go:embed benchmarks.md.tmpl
var text string

var page = template.Must(template.New("benchmarks").Parse(text))

// writeDocs writes the page, and the graph beside it.
func (r *report) writeDocs(path string) error {
	if len(r.Crowds) > 0 {
		if err := os.WriteFile(filepath.Join(filepath.Dir(path), graphFile), r.graph().SVG(), 0o644); err != nil {
			return err
		}
	}
	history, err := r.remember(path)
	if err != nil {
		return err
	}
	var markdown bytes.Buffer
	if err := page.Execute(&markdown, map[string]any{
		"Report": r, "Tables": r.tables(), "History": historyTable(history), "Graph": graphFile, "HasGraph": len(r.Crowds) > 0,
		"Better": r.notable(func(ratio float64) bool { return ratio < 1-notable }),
		"Worse":  r.notable(func(ratio float64) bool { return ratio > 1+notable }),
		"GC":     r.garbageCollection(), "Took": r.Took.Round(time.Minute).Minutes(),
		"Reads": readsPerSecond, "Writes": writesPerSecond, "Installs": installsPerSecond,
	}); err != nil {
		return fmt.Errorf("cannot write %s: %w", path, err)
	}
	return os.WriteFile(path, markdown.Bytes(), 0o644)
}

// garbageCollection returns the settings of each side.
func (r *report) garbageCollection() []string {
	var notes []string
	for _, s := range r.sides {
		settings := r.GarbageCollection[s.Name]
		var each []string
		for _, service := range slices.Sorted(maps.Keys(settings)) {
			each = append(each, service+" "+settings[service])
		}
		if len(each) > 0 {
			notes = append(notes, s.Name+": "+strings.Join(each, ", "))
		}
	}
	return notes
}

// notable lists what differs from stock by more than a little.
func (r *report) notable(differs func(float64) bool) []string {
	ours := r.sides[len(r.sides)-1].Name
	var notes []string
	for _, one := range r.Rows {
		var each []string
		for _, what := range []measure{cpuPerRequest, cpuWhenBusy, cpuPerEvent, p50, p99, p999} {
			if ratio, both := one.ratio(ours, what); both && differs(ratio) {
				each = append(each, fmt.Sprintf("%s ×%.2f", what, ratio))
			}
		}
		if ratio, both := one.ratio(ours, perSecond); both && differs(1/ratio) {
			each = append(each, fmt.Sprintf("%s ×%.2f", perSecond, ratio))
		}
		if len(each) > 0 {
			notes = append(notes, fmt.Sprintf("%s (%s, %s): %s", one.name(), one.Resource, one.Credentials, strings.Join(each, ", ")))
		}
	}
	return notes
}

var colors = map[string]string{stock: "#c0392b", tripod: "#2471a3"}

// graph draws the p99 of reads and of writes. Seconds count from the beginning of the installation.
func (r *report) graph() graph.Graph {
	g := graph.Graph{
		Title:  fmt.Sprintf("p99 of requests to built-in resources while %d CRDs are installed and their OpenAPI is read", r.CRDs),
		Panels: []graph.Panel{{Title: "GET ConfigMap"}, {Title: "UPDATE ConfigMap"}},
	}
	for _, c := range r.Crowds {
		name := map[string]string{stock: "kube-apiserver"}[c.Side]
		if name == "" {
			name = "Tripod"
		}
		color, start := colors[c.Side], c.Began[install]
		for i, write := range []bool{false, true} {
			line := graph.Line{Name: name, Color: color}
			for from := c.Began[before]; !from.Add(window).After(c.Ended); from = from.Add(window) {
				times := c.of(write, from, from.Add(window))
				line.Points = append(line.Points, graph.Point{
					Second: from.Add(window / 2).Sub(start).Seconds(), Milliseconds: max(times.Milliseconds(99), 0.1),
				})
			}
			g.Panels[i].Lines = append(g.Panels[i].Lines, line)
		}
		for _, name := range phases[1:] {
			label := map[string]string{install: "installed from here", between: "quiet", openAPI: "OpenAPI read", after: "quiet"}[name]
			g.Marks = append(g.Marks, graph.Mark{Name: label, Color: color, Second: c.Began[name].Sub(start).Seconds()})
		}
	}
	return g
}
