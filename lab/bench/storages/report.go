// Copyright The Tripod Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	_ "embed"
	"fmt"
	"os"
	"runtime"
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
			m.name, table.Number(table.Median(m.Size)), table.Number(table.Median(m.Ready)), table.Number(table.Median(m.Memory)),
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
			return table.Median(all)
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

// write prints the tables, and writes the page if one was asked for.
func (r *report) write() error {
	tables := []table.Table{r.programs()}
	for _, name := range workloads {
		tables = append(tables, r.workload(name))
	}
	if err := table.Write(os.Stdout, tables); err != nil || r.docs == "" {
		return err
	}
	return table.WritePage(r.docs, page, map[string]any{
		"Date": r.Began.Format(time.DateOnly), "Took": int(time.Since(r.Began).Minutes()), "Machine": process.Machine(), "Go": runtime.Version(),
		"Command": r.command, "Rounds": r.rounds, "Duration": r.duration, "Objects": objects, "Clients": clients, "Listers": listers,
		"Watchers": watchers, "Rate": changesPerSecond, "Settle": settle, "Tables": tables,
	})
}
