// Copyright The Tripod Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"

	"github.com/tripod-k8s/tripod/lab/bench/table"
)

const (
	// historyFile has the figures of former runs, beside the page.
	historyFile = "benchmarks-history.json"
	// remembered is how many runs the page shows.
	remembered = 10
)

// former is what a run found, in a few figures.
type former struct {
	// Date is that of the run, as 2006-01-02.
	Date    string
	Version string
	Machine string
	Figures []figure
}

// figure is what stock needed for a workload, and the ratio of Tripod to it.
type figure struct {
	Name         string
	Stock, Ratio float64
}

// remembering are the workloads that the history has, and what of them.
var remembering = []struct {
	workload string
	of       measure
}{
	{"GET/ConfigMaps/" + certificates, cpuWhenBusy},
	{"CREATE/ConfigMaps/" + certificates, cpuWhenBusy},
	{"LIST-500-JSON-RV=0/ConfigMaps/" + certificates, cpuWhenBusy},
	{"WATCH-1000/ConfigMaps/" + certificates, cpuPerEvent},
}

// former returns the figures of this run that the history keeps.
func (r *report) former() former {
	f := former{Date: r.Date.Format("2006-01-02"), Version: r.Versions[1], Machine: r.Machine}
	for _, wanted := range remembering {
		for _, one := range r.Rows {
			of := workload{Name: one.Workload, Resource: one.Resource, Credentials: one.Credentials}
			if ratio, both := one.ratio(tripod, wanted.of); both && of.String() == wanted.workload {
				f.Figures = append(f.Figures, figure{fmt.Sprintf("%s, %s", one.name(), wanted.of), one.Medians[one.base][wanted.of], ratio})
			}
		}
	}
	return f
}

// remember adds this run to the history beside the page, and returns the history, the latest run first.
func (r *report) remember(page string) ([]former, error) {
	path := filepath.Join(filepath.Dir(page), historyFile)
	var all []former
	data, err := os.ReadFile(path)
	if err == nil {
		err = json.Unmarshal(data, &all)
	}
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return nil, fmt.Errorf("cannot read the history of runs: %w", err)
	}
	all = append([]former{r.former()}, all...)
	all = all[:min(len(all), remembered)]
	if data, err = json.MarshalIndent(all, "", "  "); err != nil {
		return nil, err
	}
	return all, os.WriteFile(path, append(data, '\n'), 0o644)
}

// historyTable shows former runs. Stock's own figures show how fast the machine was.
func historyTable(all []former) table.Table {
	t := table.Table{Title: "Former runs", Header: []string{"date", "version", "machine", "", "stock", "ratio"}}
	for _, one := range all {
		for _, f := range one.Figures {
			t.Rows = append(t.Rows, []string{one.Date, one.Version, one.Machine, f.Name, table.Number(f.Stock), fmt.Sprintf("×%.2f", f.Ratio)})
		}
	}
	return t
}
