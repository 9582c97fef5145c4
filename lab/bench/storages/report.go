// Copyright The Tripod Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	_ "embed"
	"fmt"
	"os"
	"runtime"
	"slices"
	"text/template"
	"time"

	"github.com/tripod-k8s/tripod/lab/bench/process"
	"github.com/tripod-k8s/tripod/lab/bench/table"
)

//go:embed page.md.tmpl
var page string

// report is what was measured.
type report struct {
	options
	Began time.Time
	Sides []*measured
}

// programs is the table of the programs and their processes.
func (r *report) programs() table.Table {
	t := table.Table{
		Title:  "Programs",
		Header: []string{"storage", "program, MiB", "ready after, s", fmt.Sprintf("resident with %d objects, MiB", objects)},
	}
	for _, m := range r.Sides {
		t.Rows = append(t.Rows, []string{
			m.name, table.Number(median(m.Size)), table.Number(median(m.Ready)), table.Number(median(m.Memory)),
		})
	}
	return t
}

// workload is the table of a workload.
func (r *report) workload(name string) table.Table {
	t := table.Table{
		Title:  name,
		Header: []string{"storage", "per second", "beside etcd", "p50 ms", "p99 ms", "CPU ms of the service for each"},
	}
	if name == "WATCH" {
		t.Title = fmt.Sprintf("WATCH, %d watchers", watchers)
	}
	first := 0.0
	for _, m := range r.Sides {
		of := func(field func(figures) float64) float64 {
			var all []float64
			for _, f := range m.Workloads[name] {
				all = append(all, field(f))
			}
			return median(all)
		}
		rate := of(func(f figures) float64 { return f.PerSecond })
		if first == 0 {
			first = rate
		}
		t.Rows = append(t.Rows, []string{
			m.name, table.Number(rate), table.Ratio(rate, first), table.Number(of(func(f figures) float64 { return f.P50 })),
			table.Number(of(func(f figures) float64 { return f.P99 })), table.Number(of(func(f figures) float64 { return f.CPU })),
		})
	}
	return t
}

func median(numbers []float64) float64 {
	sorted := slices.Sorted(slices.Values(numbers))
	return (sorted[(len(sorted)-1)/2] + sorted[len(sorted)/2]) / 2
}

// write prints the tables, and writes the page if one was asked for.
func (r *report) write() error {
	tables := []table.Table{r.programs()}
	for _, name := range workloads {
		tables = append(tables, r.workload(name))
	}
	if err := table.Write(os.Stdout, tables); err != nil || r.docs == "" {
		return err
	}
	parsed, err := template.New("page").Parse(page)
	if err != nil {
		return err
	}
	file, err := os.Create(r.docs)
	if err != nil {
		return fmt.Errorf("cannot write the page: %w", err)
	}
	defer file.Close() //nolint:errcheck // the error of Sync counts
	err = parsed.Execute(file, map[string]any{
		"Date": r.Began.Format(time.DateOnly), "Took": int(time.Since(r.Began).Minutes()), "Machine": process.Machine(), "Go": runtime.Version(),
		"Command": r.command, "Rounds": r.rounds, "Duration": r.duration, "Objects": objects, "Clients": clients, "Listers": listers,
		"Watchers": watchers, "Rate": changesPerSecond, "Settle": settle, "Tables": tables,
	})
	if err != nil {
		return err
	}
	return file.Sync()
}
