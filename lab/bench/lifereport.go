// Copyright The Tripod Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"bytes"
	"context"
	_ "embed"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"text/template"
	"time"

	"github.com/tripod-k8s/tripod/lab/bench/process"
	"github.com/tripod-k8s/tripod/lab/bench/purposes"
	"github.com/tripod-k8s/tripod/lab/bench/table"
)

//go:embed benchmarks-cluster.md.tmpl
var lifeText string

var lifePage = template.Must(template.New("benchmarks-cluster").Parse(lifeText))

// lives are the lives of clusters on several control planes, in each round.
type lives struct {
	Date        time.Time
	Took        time.Duration
	Command     string
	Machine     string
	Versions    []string
	Rounds      int
	Nodes, Pods int
	Rest        time.Duration
	// Conditions are what ran beside.
	Conditions []string
	// Lives has what happened under each condition on each shape in each round.
	Lives map[string]map[string][]*life
	// Profiled has one more life of each control plane with one server of each kind, in which profiles were taken.
	Profiled []*life `json:",omitempty"`

	shapes []shape
}

// compareLives has a cluster live on each control plane, in the opposite order of the round before, and writes what that costs.
func (o *options) compareLives(ctx context.Context) (err error) {
	l := &lives{
		Date: time.Now().UTC(), Command: o.commandLine, Machine: process.Machine(), Versions: versions(), Rounds: o.rounds, Nodes: o.nodes, Pods: o.pods, Rest: o.quiet,
		Conditions: o.conditions, Lives: map[string]map[string][]*life{}, shapes: o.shapes,
	}
	if slices.Contains(o.conditions, memory) {
		if o.neighbour, err = startNeighbour(ctx); err != nil {
			return err
		}
		defer func() { err = errors.Join(err, o.neighbour.close()) }()
	}
	for _, condition := range o.conditions {
		l.Lives[condition] = map[string][]*life{}
		if err := inRounds(o.rounds, o.shapes, func(round int, s shape) error {
			if condition != alone && !s.alone() {
				return nil // several replicas on one machine are about memory, which no neighbour changes
			}
			o.logf("round %d of %d, neighbour %s: %s", round, o.rounds, condition, s.Name)
			return o.under(condition, func() error {
				one, err := s.live(ctx, o, 0)
				l.Lives[condition][s.Name] = append(l.Lives[condition][s.Name], one)
				return err
			})
		}); err != nil {
			return err
		}
	}
	if o.profile > 0 {
		for _, s := range o.shapes {
			if s.alone() {
				o.logf("profiles: %s", s.Name)
				one, err := s.live(ctx, o, o.profile)
				if err != nil {
					return err
				}
				l.Profiled = append(l.Profiled, one)
			}
		}
	}
	l.Took = time.Since(l.Date)
	return l.write(o)
}

func (l *lives) write(o *options) error {
	data, err := json.MarshalIndent(l, "", "  ")
	if err != nil {
		return err
	}
	if err := os.WriteFile(filepath.Join(o.artifacts, "cluster.json"), append(data, '\n'), 0o644); err != nil {
		return err
	}
	if o.docs != "" {
		var markdown bytes.Buffer
		if err := lifePage.Execute(&markdown, map[string]any{"Lives": l, "Tables": l.tables(), "Took": l.Took.Round(time.Minute).Minutes(), "PodsEach": podsEach, "Informers": herdInformers, "Probes": probesPerSecond}); err != nil {
			return fmt.Errorf("cannot write %s: %w", o.docs, err)
		}
		if err := os.WriteFile(o.docs, markdown.Bytes(), 0o644); err != nil {
			return err
		}
	}
	if o.json {
		_, err = fmt.Println(string(data))
		return err
	}
	return table.Write(os.Stdout, l.tables())
}

// median returns the median of a figure of a phase over the rounds, and false if the shape did not live under the condition.
func (l *lives) median(condition, shape string, phase int, of func(lived) float64) (float64, bool) {
	var all []float64
	for _, one := range l.Lives[condition][shape] {
		all = append(all, of(one.Phases[phase]))
	}
	return table.Median(all), len(all) > 0
}

// phases returns the names of the phases.
func (l *lives) phases() (names []string) {
	for _, one := range l.Lives[l.Conditions[0]][l.shapes[0].Name][0].Phases {
		names = append(names, one.Name)
	}
	return names
}

func (l *lives) header(before ...string) []string {
	for _, s := range l.shapes {
		before = append(before, s.Name)
	}
	return before
}

func memoryNow(p lived) float64 { return p.Memory }

// tables returns a table of each figure. The first shape has what was measured, each other one the ratio to it.
func (l *lives) tables() []table.Table {
	var all []table.Table
	for _, figure := range []struct {
		title string
		of    func(lived) float64
	}{
		{"Processor time of the API servers, seconds", lived.sum},
		{"Time, seconds", func(p lived) float64 { return p.Seconds }},
		{"Processor time of etcd, seconds", func(p lived) float64 { return p.Etcd }},
		{"p99 of the probe, ms", func(p lived) float64 { return p.P99 }},
		{"p50 of the probe, ms", func(p lived) float64 { return p.P50 }},
		{"Context switches of the API servers", func(p lived) float64 { return float64(p.Switches) }},
		{"Memory of the API servers at the end of the phase, MB", memoryNow},
		{"Memory of the API servers at most until then, MB", func(p lived) float64 { return p.Peak }},
		{"Failed requests of the probe", func(p lived) float64 { return float64(p.Failed) }},
	} {
		all = append(all, l.table(figure.title, func(condition string, i int) (cells []string) {
			base, _ := l.median(condition, l.shapes[0].Name, i, figure.of)
			for n, s := range l.shapes {
				here, lived := l.median(condition, s.Name, i, figure.of)
				cell := ""
				switch {
				case !lived:
				case n > 0 && base > 0:
					cell = fmt.Sprintf("%s ×%.2f", table.Number(here), here/base)
				default:
					cell = table.Number(here)
				}
				cells = append(cells, cell)
			}
			return cells
		}))
	}
	all = append(all, l.splitTable(), l.herdTable(), l.aimTable())
	if len(l.Profiled) > 0 {
		all = append(all, l.purposeTables()...)
	}
	return all
}

// purposeTables say what the processor time of phases is for.
func (l *lives) purposeTables() (tables []table.Table) {
	for i, phase := range l.Profiled[0].Phases {
		if !slices.Contains([]string{join, running, deleted, again}, phase.Name) {
			continue
		}
		t := table.Table{Title: "What processor time is for while " + phase.Name + ", seconds", Header: []string{""}}
		for _, one := range l.Profiled {
			t.Header = append(t.Header, one.Shape)
			if services := one.Phases[i].Purposes; len(services) > 1 {
				for _, service := range slices.Sorted(maps.Keys(services)) {
					t.Header = append(t.Header, one.Shape+": "+service)
				}
			}
		}
		for _, purpose := range purposes.All() {
			t.Rows = append(t.Rows, l.purposeRow(purpose, i))
		}
		tables = append(tables, t)
	}
	return tables
}

// purposeRow has the seconds of each control plane, and of its services if it has several. All but the first have the difference to the first.
func (l *lives) purposeRow(purpose string, phase int) []string {
	row, base := []string{purpose}, 0.0
	for n, one := range l.Profiled {
		services, sum := one.Phases[phase].Purposes, 0.0
		var each []string
		for _, service := range slices.Sorted(maps.Keys(services)) {
			sum += services[service][purpose]
			each = append(each, table.Number(services[service][purpose]))
		}
		cell := table.Number(sum)
		if n == 0 {
			base = sum
		} else if base > 0 {
			cell = fmt.Sprintf("%s %+.2f", cell, sum-base)
		}
		row = append(row, cell)
		if len(each) > 1 {
			row = append(row, each...)
		}
	}
	return row
}

// table has a row for each phase under each condition.
func (l *lives) table(title string, cells func(condition string, phase int) []string) table.Table {
	t := table.Table{Title: title, Header: l.header("", "neighbour")}
	for _, condition := range l.Conditions {
		for i, phase := range l.phases() {
			t.Rows = append(t.Rows, append([]string{phase, condition}, cells(condition, i)...))
		}
	}
	return t
}

// splitTable shows which service uses the processor time.
func (l *lives) splitTable() table.Table {
	return l.table("Processor time of each service, seconds", func(condition string, i int) (cells []string) {
		for _, s := range l.shapes {
			var each []string
			if rounds := l.Lives[condition][s.Name]; len(rounds) > 0 {
				for _, service := range slices.Sorted(maps.Keys(rounds[0].Phases[i].CPU)) {
					used, _ := l.median(condition, s.Name, i, func(p lived) float64 { return p.CPU[service] })
					each = append(each, service+" "+table.Number(used))
				}
			}
			cells = append(cells, strings.Join(each, ", "))
		}
		return cells
	})
}

// aimTable compares Tripod's shapes with the shape of stock that has as many API servers as Tripod has of core: the worst phase of each.
func (l *lives) aimTable() table.Table {
	t := table.Table{Title: "Aims: the worst ratio to as many stock API servers as there are of core", Header: []string{"", "neighbour"}}
	var compared []shape
	for _, s := range l.shapes {
		if s.tripod() && l.likeOf(s) != nil {
			compared = append(compared, s)
			t.Header = append(t.Header, s.Name, "aim", "", "which")
		}
	}
	for _, aim := range []struct {
		what string
		of   func(lived) float64
		// one is the aim for one server of each kind, and several that for several ones, or 0 if there is none.
		one, several float64
	}{
		{"CPU in each phase", lived.sum, 1.1, 0},
		{"CPU of etcd in each phase", func(p lived) float64 { return p.Etcd }, 1, 0},
		{"time of each phase", func(p lived) float64 { return p.Seconds }, 1.05, 0},
		{"p99 of the probe in each phase", func(p lived) float64 { return p.P99 }, 1, 0},
		{"memory at the end of each phase", memoryNow, 1.3, 0.5},
		{"most memory until the end of each phase", func(p lived) float64 { return p.Peak }, 1.5, 0},
	} {
		for _, condition := range l.Conditions {
			cells := []string{aim.what, condition}
			for _, s := range compared {
				limit := aim.one
				if !s.alone() {
					limit = aim.several
				}
				cells = append(cells, l.worst(condition, s, limit, aim.of)...)
			}
			t.Rows = append(t.Rows, cells)
		}
	}
	return t
}

// likeOf returns the shape of stock with as many API servers as s has of core, or nil.
func (l *lives) likeOf(s shape) *shape {
	for i, other := range l.shapes {
		if !other.tripod() && other.stock == max(s.cores, 1) {
			return &l.shapes[i]
		}
	}
	return nil
}

// worst returns cells about the phase with the worst ratio: the ratio, what is allowed, whether it is met, and the phase.
func (l *lives) worst(condition string, s shape, limit float64, of func(lived) float64) []string {
	var worst float64
	var where string
	for i, phase := range l.phases() {
		ours, _ := l.median(condition, s.Name, i, of)
		theirs, _ := l.median(condition, l.likeOf(s).Name, i, of)
		if theirs > 0 && ours/theirs > worst {
			worst, where = ours/theirs, phase
		}
	}
	if worst == 0 || limit == 0 {
		return []string{"", "", "", ""}
	}
	verdict := "**not met**"
	if worst <= limit {
		verdict = "met"
	}
	return []string{fmt.Sprintf("×%.2f", worst), fmt.Sprintf("≤ %g", limit), verdict, where}
}
