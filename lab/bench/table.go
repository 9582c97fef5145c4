// Copyright The Tripod Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"fmt"
	"slices"
	"strings"

	"github.com/tripod-k8s/tripod/lab/bench/table"
)

// tables returns all tables.
func (r *report) tables() []table.Table {
	all := []table.Table{
		r.noiseTable(),
		r.workloadTable("Requests: medians of stock, and ratios to them",
			func(one *row) bool { return !one.fanOut }, cpuPerRequest, cpuWhenBusy, etcdCPU, p50, p99, p999, perSecond),
		r.workloadTable("Watches: each change goes to all watchers",
			func(one *row) bool { return one.fanOut }, cpuPerEvent, etcdCPU, p50, p99, p999, perWatch),
		r.workloadTable("Total cost: the API server and its etcd together",
			func(one *row) bool { return !one.fanOut }, withEtcd(cpuPerRequest), withEtcd(cpuWhenBusy)),
		r.workloadTable("Total cost of watches: the API server and its etcd together",
			func(one *row) bool { return one.fanOut }, withEtcd(cpuPerEvent)),
		r.workloadTable("System: of each request or event the times that a thread began to wait or was interrupted, and calls of read and write; resident memory afterwards",
			func(*row) bool { return true }, switches, systemCalls, resident),
		r.splitTable(), r.startTable(), r.memoryTable(), r.phaseTable(), r.aimTable(),
	}
	if r.OneProcessor != nil {
		all = append(all, r.OneProcessor.oneProcessorTables()...)
	}
	if r.APIServices != nil {
		all = append(all, r.APIServices.tables()...)
	}
	return slices.DeleteFunc(all, func(t table.Table) bool { return len(t.Rows) == 0 })
}

// workloadTable has a column of each side for each measure. The base has what was measured, each other side the ratio to it.
func (r *report) workloadTable(title string, keep func(*row) bool, measures ...measure) table.Table {
	t := table.Table{Title: title, Header: []string{"", "resource", "credentials", "per second"}}
	for _, what := range measures {
		for _, s := range r.sides {
			if s.Name == r.base() {
				t.Header = append(t.Header, string(what)+" "+s.Name)
			} else {
				t.Header = append(t.Header, s.Name)
			}
		}
	}
	t.Header = append(t.Header, "failed", "incomplete")
	for _, one := range r.Rows {
		if !keep(one) {
			continue
		}
		cells := []string{one.name(), one.Resource, one.Credentials, fmt.Sprintf("%g", one.Rate)}
		failed, incomplete := 0.0, 0.0
		for _, what := range measures {
			for _, s := range r.sides {
				if ratio, both := one.ratio(s.Name, what); both && s.Name != one.base {
					cells = append(cells, fmt.Sprintf("×%.2f", ratio))
				} else {
					cells = append(cells, table.Number(one.Medians[s.Name][what]))
				}
			}
		}
		for _, s := range r.sides {
			for _, count := range one.Rounds[s.Name][failures] {
				failed += count
			}
			for _, count := range one.Rounds[s.Name][incompleteRuns] {
				incomplete += count
			}
		}
		t.Rows = append(t.Rows, append(cells, fmt.Sprintf("%g", failed), fmt.Sprintf("%g", incomplete)))
	}
	return t
}

// splitTable shows which service uses the processor time.
func (r *report) splitTable() table.Table {
	ours := r.sides[len(r.sides)-1].Name
	t := table.Table{
		Title:  "Where the processor time goes: CPU ms/request of 16 busy clients, CPU µs/event of watches",
		Header: []string{"", "resource", "credentials", kubeAPIServer, aggregator, core, extensions, "without the aggregator", "in all"},
	}
	for _, one := range r.Rows {
		cells := []string{one.name(), one.Resource, one.Credentials}
		for _, service := range []string{kubeAPIServer, aggregator, core, extensions} {
			side := ours
			if service == kubeAPIServer {
				side = stock
			}
			cells = append(cells, table.Number(one.Medians[side][cpuIn(service)]))
		}
		theirs, hop := one.Medians[stock][cpuIn(kubeAPIServer)], one.Medians[ours][cpuIn(aggregator)]
		backends := one.Medians[ours][cpuIn(core)] + one.Medians[ours][cpuIn(extensions)]
		if ours != stock && backends > 0 {
			t.Rows = append(t.Rows, append(cells, table.Ratio(backends, theirs), table.Ratio(backends+hop, theirs)))
		}
	}
	return t
}

func (r *report) startTable() table.Table {
	t := table.Table{Title: "Start to ready, and doing nothing", Header: []string{"", "seconds", "each", "ratio", "idle, % of a CPU"}}
	for _, s := range r.sides {
		if starts := r.Starts[s.Name]; len(starts) > 0 {
			t.Rows = append(t.Rows, []string{
				s.Name, table.Number(table.Median(starts)), strings.Trim(fmt.Sprintf("%.2f", starts), "[]"), table.Ratio(table.Median(starts), table.Median(r.Starts[stock])),
				table.Number(100 * table.Median(r.Idle[s.Name])),
			})
		}
	}
	return t
}

func (r *report) memoryTable() table.Table {
	t := table.Table{Title: fmt.Sprintf("Resident memory, MB, with %d CRDs", r.CRDs), Header: []string{
		"", "side", "each process", "sum", "ratio", "together: what they share counts once", "ratio",
	}}
	for _, state := range []string{idle, installed, wasRead, peak, fresh} {
		for _, c := range r.Crowds {
			var each []string
			for name, megabytes := range c.Memory[state] {
				each = append(each, fmt.Sprintf("%s %.0f", name, megabytes))
			}
			slices.Sort(each)
			theirs, theirsTogether := 0.0, 0.0
			if s := r.crowd(stock); s != nil && state != fresh {
				theirs, theirsTogether = s.sum(state), s.Together[state]
			}
			t.Rows = append(t.Rows, []string{
				state, c.Side, strings.Join(each, ", "), fmt.Sprintf("%.0f", c.sum(state)), table.Ratio(c.sum(state), theirs),
				table.Number(c.Together[state]), table.Ratio(c.Together[state], theirsTogether),
			})
		}
	}
	return t
}

func (r *report) phaseTable() table.Table {
	t := table.Table{
		Title:  fmt.Sprintf("Built-in resources while %d CRDs are installed: %d GETs and %d UPDATEs a second", r.CRDs, readsPerSecond, writesPerSecond),
		Header: []string{"", "", "side", "seconds", "requests", "p50 ms", "p99 ms", "p99.9 ms", "ratio of p99"},
	}
	for _, requests := range []string{"GET", "UPDATE"} {
		for _, name := range phases {
			theirs := 0.0
			for _, p := range r.Phases {
				if p.Requests != requests || p.Name != name {
					continue
				}
				if p.Side == stock {
					theirs = p.P99
				}
				t.Rows = append(t.Rows, []string{
					requests, name, p.Side, table.Number(p.Seconds), fmt.Sprint(p.Count), table.Number(p.P50), table.Number(p.P99), table.Number(p.P999), table.Ratio(p.P99, theirs),
				})
			}
		}
	}
	return t
}

func (r *report) aimTable() table.Table {
	t := table.Table{Title: "Aims: the worst ratio to stock for each", Header: []string{"", "neighbour", "aim"}}
	var ours []side
	for _, s := range r.sides {
		if !s.isStock() {
			ours = append(ours, s)
			t.Header = append(t.Header, s.Name, "", "which")
		}
	}
	for _, a := range r.Aims {
		cells := []string{a.What, a.Condition, fmt.Sprintf("≤ %g", a.Limit)}
		for _, s := range ours {
			one, measured := a.Found[s.Name]
			switch {
			case !measured:
				cells = append(cells, "", "not measured", "")
			case one.Met:
				cells = append(cells, table.Number(one.Value), "met", one.Of)
			default:
				cells = append(cells, table.Number(one.Value), "**not met**", one.Of)
			}
		}
		t.Rows = append(t.Rows, cells)
	}
	return t
}
