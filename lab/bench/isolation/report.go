// Copyright The Tripod Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"bytes"
	_ "embed"
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"text/template"
	"time"

	"github.com/tripod-k8s/tripod/lab/bench/graph"
	"github.com/tripod-k8s/tripod/lab/bench/process"
	"github.com/tripod-k8s/tripod/lab/bench/table"
)

// window is the length of time that each point of the graph covers.
const window = 2 * time.Second

//go:embed page.md.tmpl
var text string

var page = template.Must(template.New("partitions").Parse(text))

// report has what was measured on all sides.
type report struct {
	options
	Began time.Time
	Took  time.Duration
	Sides []*measured
}

// result is what one kind of requests took during a fault.
type result struct {
	Side, Subject, Fault string
	Write                bool
	P50, P99             float64 // milliseconds
	Requests, Failed     int
	Note                 string `json:",omitempty"`
}

func (r *report) results() (all []result) {
	for _, m := range r.Sides {
		for _, s := range subjects() {
			for _, p := range m.Phases {
				for _, write := range []bool{false, true} {
					times, failed := m.during(s.name, write, p.Began, p.Ended)
					all = append(all, result{
						Side: m.Side, Subject: s.name, Fault: p.Name, Write: write, P50: times.Milliseconds(50), P99: times.Milliseconds(99),
						Requests: int(times.Count()) + failed, Failed: failed, Note: p.Note,
					})
				}
			}
		}
	}
	return all
}

// tables returns one table for each subject, with a row for each fault.
func (r *report) tables() (tables []table.Table) {
	all := r.results()
	for _, s := range subjects() {
		t := table.Table{Title: strings.ToUpper(s.name[:1]) + s.name[1:], Header: []string{"fault"}}
		rows := map[string][]string{}
		var order []string
		for _, m := range r.Sides {
			t.Header = append(t.Header, m.Side+": GET p99", "APPLY p99", "failed")
			var calm [2]float64
			failed, sent := 0, 0
			for _, one := range all {
				if one.Side != m.Side || one.Subject != s.name {
					continue
				}
				kind := 0
				if one.Write {
					kind = 1
				} else {
					failed, sent = 0, 0
				}
				if one.Fault == idle {
					calm[kind] = one.P99
				}
				if rows[one.Fault] == nil {
					order = append(order, one.Fault)
					rows[one.Fault] = []string{one.Fault}
				}
				rows[one.Fault] = append(rows[one.Fault], took(one, calm[kind]))
				failed, sent = failed+one.Failed, sent+one.Requests
				if one.Write {
					rows[one.Fault] = append(rows[one.Fault], share(failed, sent))
				}
			}
		}
		for _, name := range order {
			t.Rows = append(t.Rows, rows[name])
		}
		tables = append(tables, t)
	}
	return append(tables, r.notes())
}

// notes returns what happened in each fault.
func (r *report) notes() table.Table {
	t := table.Table{Title: "What happened", Header: []string{"fault"}}
	for i, m := range r.Sides {
		t.Header = append(t.Header, m.Side)
		for j, p := range m.Phases {
			if i == 0 {
				t.Rows = append(t.Rows, []string{p.Name})
			}
			t.Rows[j] = append(t.Rows[j], p.Note)
		}
	}
	return t
}

func took(r result, calm float64) string {
	if r.Failed == r.Requests {
		return "no answer"
	}
	latency := table.Number(r.P99) + " ms"
	if r.Fault != idle {
		latency += " " + table.Ratio(r.P99, calm)
	}
	return latency
}

func share(failed, sent int) string {
	if failed == 0 {
		return "0"
	}
	return fmt.Sprintf("%d of %d", failed, sent)
}

// graph draws the p99 of reads. A request that fails counts as one that takes the longest time that clients wait.
func (r *report) graph() graph.Graph {
	g := graph.Graph{
		Title: fmt.Sprintf("p99 of GETs while one fault after the other happens to %d definitions of another team (a failed request counts as %s)",
			r.definitions, requestTimeout),
		Panels: []graph.Panel{{Title: "GET of a custom resource"}, {Title: "GET ConfigMap"}},
	}
	for i, m := range r.Sides {
		color, start := r.sides()[i].color, m.Phases[0].Began
		for j, subject := range []string{ofTeam, ofCore} {
			line := graph.Line{Name: m.Side, Color: color}
			for from := start; from.Add(window).Before(m.Phases[len(m.Phases)-1].Ended); from = from.Add(window) {
				times, failed := m.during(subject, false, from, from.Add(window))
				for range failed {
					times.Add(requestTimeout)
				}
				line.Points = append(line.Points, graph.Point{
					Second: from.Add(window / 2).Sub(start).Seconds(), Milliseconds: max(times.Milliseconds(99), 0.1),
				})
			}
			g.Panels[j].Lines = append(g.Panels[j].Lines, line)
		}
		for _, p := range m.Phases[1:] {
			g.Marks = append(g.Marks, graph.Mark{Name: p.label, Color: color, Second: p.Began.Sub(start).Seconds()})
		}
	}
	return g
}

// writeDocs writes the page, and the graph beside it.
func (r *report) writeDocs() error {
	file := strings.TrimSuffix(filepath.Base(r.docs), ".md") + ".svg"
	if err := os.WriteFile(filepath.Join(filepath.Dir(r.docs), file), r.graph().SVG(), 0o644); err != nil {
		return err
	}
	var markdown bytes.Buffer
	if err := page.Execute(&markdown, map[string]any{
		"Date": r.Began.Format(time.DateOnly), "Took": r.Took.Round(time.Minute).Minutes(), "Machine": process.Machine(), "Go": runtime.Version(),
		"Command": r.command, "Graph": file, "Tables": r.tables(), "Definitions": r.definitions, "Few": r.few,
		"Reads": readsPerSecond, "Writes": writesPerSecond, "Timeout": requestTimeout, "For": r.duration, "Quiet": r.quiet,
		"CPUs": r.cpus, "Documents": documentsPerSecond, "All": allEvery, "Changes": changesPerSecond, "More": more >> 20,
	}); err != nil {
		return fmt.Errorf("cannot write %s: %w", r.docs, err)
	}
	return os.WriteFile(r.docs, markdown.Bytes(), 0o644)
}
