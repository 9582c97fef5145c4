// Copyright The Tripod Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	_ "embed"
	"os"
	"runtime"
	"slices"
	"time"

	"github.com/tripod-k8s/tripod/e2e/release"
	"github.com/tripod-k8s/tripod/lab/bench/process"
	"github.com/tripod-k8s/tripod/lab/bench/table"
)

//go:embed page.md.tmpl
var page string

// components are the pods of a release, in the order of the table.
var components = []string{release.Etcd, release.Core, release.Extensions, release.Aggregator, "controller-manager"}

// report is what was measured.
type report struct {
	options
	Began    time.Time
	Took     time.Duration
	Releases []*controlPlane
}

const mib = 1 << 20

// total is the memory of all pods of a release.
func (c *controlPlane) total() (sum uint64) {
	for _, bytes := range c.Memory {
		sum += bytes
	}
	return sum
}

// each is the table with a line for each release.
func (r *report) each() table.Table {
	t := table.Table{Title: "Each release", Header: []string{"release", "etcd of", "ready after, s"}}
	for _, component := range components {
		t.Header = append(t.Header, component+", MiB")
	}
	t.Header = append(t.Header, "all, MiB")
	for _, c := range r.Releases {
		row := []string{c.Name, c.Etcd, table.Number(c.Ready.Seconds())}
		for _, component := range components {
			row = append(row, table.Number(float64(c.Memory[component])/mib))
		}
		t.Rows = append(t.Rows, append(row, table.Number(float64(c.total())/mib)))
	}
	return t
}

// all is the table of medians and sums.
func (r *report) all() table.Table {
	var ready, memory []float64
	var sum, took float64
	for _, c := range r.Releases {
		ready, memory = append(ready, c.Ready.Seconds()), append(memory, float64(c.total())/mib)
		took += c.Ready.Seconds()
		sum += float64(c.total()) / mib
	}
	return table.Table{Title: "All releases", Header: []string{"", "median", "least", "most", "sum"}, Rows: [][]string{
		{"ready after, s", table.Number(table.Median(ready)), table.Number(slices.Min(ready)), table.Number(slices.Max(ready)), table.Number(took)},
		{"memory, MiB", table.Number(table.Median(memory)), table.Number(slices.Min(memory)), table.Number(slices.Max(memory)), table.Number(sum)},
	}}
}

// write prints the tables, and writes the page if one was asked for.
func (r *report) write() error {
	tables := []table.Table{r.all(), r.each()}
	if err := table.Write(os.Stdout, tables); err != nil || r.docs == "" {
		return err
	}
	return table.WritePage(r.docs, page, map[string]any{
		"Date": r.Began.Format(time.DateOnly), "Took": int(r.Took.Minutes()), "Machine": process.Machine(), "Go": runtime.Version(),
		"Command": r.command, "Count": len(r.Releases), "Settle": r.settle, "Tables": tables, "Note": r.note,
	})
}
