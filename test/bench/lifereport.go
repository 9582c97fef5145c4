// Copyright The Tripod Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"bytes"
	"context"
	_ "embed"
	"encoding/json"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"text/template"
	"time"
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
	// Lives has what happened on each shape in each round.
	Lives map[string][]*life

	shapes []string
}

// compareLives has a cluster live on each control plane, in the opposite order of the round before, and writes what that costs.
func (o *options) compareLives(ctx context.Context) error {
	l := &lives{
		Date: time.Now().UTC(), Command: o.commandLine, Machine: machine(), Versions: versions(), Rounds: o.rounds, Nodes: o.nodes, Pods: o.pods, Rest: o.quiet,
		Lives: map[string][]*life{},
	}
	for _, s := range o.shapes {
		l.shapes = append(l.shapes, s.Name)
	}
	if err := inRounds(o.rounds, o.shapes, func(round int, s shape) error {
		o.say("round %d of %d: %s", round, o.rounds, s.Name)
		one, err := s.live(ctx, o, 0)
		l.Lives[s.Name] = append(l.Lives[s.Name], one)
		return err
	}); err != nil {
		return err
	}
	if o.profile > 0 {
		for _, s := range o.shapes {
			if s.alone() {
				o.say("profiles: %s", s.Name)
				if _, err := s.live(ctx, o, o.profile); err != nil {
					return err
				}
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
		if err := lifePage.Execute(&markdown, map[string]any{"Lives": l, "Tables": l.tables(), "Took": l.Took.Round(time.Minute).Minutes(), "PodsEach": podsEach, "Probes": probesPerSecond}); err != nil {
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
	return writeTables(os.Stdout, l.tables())
}

// median returns the median of a figure of a phase over the rounds.
func (l *lives) median(shape string, phase int, of func(lived) float64) float64 {
	var all []float64
	for _, one := range l.Lives[shape] {
		all = append(all, of(one.Phases[phase]))
	}
	return median(all)
}

// tables returns a table of each figure. The first shape has what was measured, each other one the ratio to it.
func (l *lives) tables() []table {
	var all []table
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
		{"Memory of the API servers at the end of the phase, MB", func(p lived) float64 { return p.Memory }},
		{"Memory of the API servers at most until then, MB", func(p lived) float64 { return p.Peak }},
		{"Failed requests of the probe", func(p lived) float64 { return float64(p.Failed) }},
	} {
		t := table{Title: figure.title, header: append([]string{""}, l.shapes...)}
		for i, phase := range l.Lives[l.shapes[0]][0].Phases {
			cells := []string{phase.Name}
			base := l.median(l.shapes[0], i, figure.of)
			for n, shape := range l.shapes {
				here := l.median(shape, i, figure.of)
				cell := number(here)
				if n > 0 && base > 0 {
					cell = fmt.Sprintf("%s ×%.2f", cell, here/base)
				}
				cells = append(cells, cell)
			}
			t.rows = append(t.rows, cells)
		}
		all = append(all, t)
	}
	return append(all, l.splitTable())
}

// splitTable shows which service uses the processor time.
func (l *lives) splitTable() table {
	t := table{Title: "Processor time of each service, seconds", header: append([]string{""}, l.shapes...)}
	for i, phase := range l.Lives[l.shapes[0]][0].Phases {
		cells := []string{phase.Name}
		for _, shape := range l.shapes {
			var each []string
			for _, service := range slices.Sorted(maps.Keys(l.Lives[shape][0].Phases[i].CPU)) {
				each = append(each, service+" "+number(l.median(shape, i, func(p lived) float64 { return p.CPU[service] })))
			}
			cells = append(cells, strings.Join(each, ", "))
		}
		t.rows = append(t.rows, cells)
	}
	return t
}
