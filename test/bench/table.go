// Copyright The Tripod Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"fmt"
	"io"
	"slices"
	"strings"
	"text/tabwriter"
)

// table is a table for people.
type table struct {
	Title  string
	header []string
	rows   [][]string
}

// writeTables writes tables as plain text.
func writeTables(w io.Writer, tables []table) error {
	for _, t := range tables {
		fmt.Fprintf(w, "\n%s\n\n", t.Title)
		aligned := tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)
		for _, cells := range append([][]string{t.header}, t.rows...) {
			fmt.Fprintln(aligned, strings.Join(cells, "\t"))
		}
		if err := aligned.Flush(); err != nil {
			return err
		}
	}
	return nil
}

// Markdown returns the table as Markdown.
func (t table) Markdown() string {
	var text strings.Builder
	line := func(cells []string) { fmt.Fprintf(&text, "| %s |\n", strings.Join(cells, " | ")) }
	line(t.header)
	line(slices.Repeat([]string{"---"}, len(t.header)))
	for _, cells := range t.rows {
		line(cells)
	}
	return text.String()
}

// tables returns all tables.
func (r *report) tables() []table {
	all := []table{
		r.workloadTable("Requests: medians of stock, and ratios to them",
			func(one *row) bool { return !one.fanOut }, cpuPerRequest, cpuWhenBusy, etcdCPU, p50, p99, p999, perSecond),
		r.workloadTable("Watches: each change goes to all watchers",
			func(one *row) bool { return one.fanOut }, cpuPerEvent, etcdCPU, p50, p99, p999, perWatch),
		r.workloadTable("System: of each request or event the times that a thread began to wait or was interrupted, and calls of read and write; resident memory afterwards",
			func(*row) bool { return true }, switches, systemCalls, resident),
		r.splitTable(), r.startTable(), r.memoryTable(), r.phaseTable(), r.aimTable(),
	}
	if r.Legs != nil {
		all = append(all, r.Legs.tables()...)
	}
	return slices.DeleteFunc(all, func(t table) bool { return len(t.rows) == 0 })
}

// workloadTable has a column of each side for each measure. The base has what was measured, each other side the ratio to it.
func (r *report) workloadTable(title string, keep func(*row) bool, measures ...measure) table {
	t := table{Title: title, header: []string{"", "resource", "credentials", "per second"}}
	for _, what := range measures {
		for _, s := range r.sides {
			if s.Name == r.base() {
				t.header = append(t.header, string(what)+" "+s.Name)
			} else {
				t.header = append(t.header, s.Name)
			}
		}
	}
	t.header = append(t.header, "failed")
	for _, one := range r.Rows {
		if !keep(one) {
			continue
		}
		cells := []string{one.name(), one.Resource, one.Credentials, fmt.Sprintf("%g", one.Rate)}
		failed := 0.0
		for _, what := range measures {
			for _, s := range r.sides {
				if ratio, both := one.ratio(s.Name, what); both && s.Name != one.base {
					cells = append(cells, fmt.Sprintf("×%.2f", ratio))
				} else {
					cells = append(cells, number(one.Medians[s.Name][what]))
				}
			}
		}
		for _, s := range r.sides {
			for _, count := range one.Rounds[s.Name][failures] {
				failed += count
			}
		}
		t.rows = append(t.rows, append(cells, fmt.Sprintf("%g", failed)))
	}
	return t
}

// splitTable shows which service uses the processor time.
func (r *report) splitTable() table {
	ours := r.sides[len(r.sides)-1].Name
	t := table{
		Title:  "Where the processor time goes: CPU ms/request of 16 busy clients, CPU µs/event of watches",
		header: []string{"", "resource", "credentials", kubeAPIServer, aggregator, core, extensions, "without the aggregator", "in all"},
	}
	for _, one := range r.Rows {
		cells := []string{one.name(), one.Resource, one.Credentials}
		for _, service := range []string{kubeAPIServer, aggregator, core, extensions} {
			side := ours
			if service == kubeAPIServer {
				side = stock
			}
			cells = append(cells, number(one.Medians[side][cpuIn(service)]))
		}
		theirs, hop := one.Medians[stock][cpuIn(kubeAPIServer)], one.Medians[ours][cpuIn(aggregator)]
		backends := one.Medians[ours][cpuIn(core)] + one.Medians[ours][cpuIn(extensions)]
		if ours != stock && backends > 0 {
			t.rows = append(t.rows, append(cells, ratioTo(backends, theirs), ratioTo(backends+hop, theirs)))
		}
	}
	return t
}

func (r *report) startTable() table {
	t := table{Title: "Start to ready, and doing nothing", header: []string{"", "seconds", "each", "ratio", "idle, % of a CPU"}}
	for _, s := range r.sides {
		if starts := r.Starts[s.Name]; len(starts) > 0 {
			t.rows = append(t.rows, []string{
				s.Name, number(median(starts)), strings.Trim(fmt.Sprintf("%.2f", starts), "[]"), ratioTo(median(starts), median(r.Starts[stock])),
				number(100 * median(r.Idle[s.Name])),
			})
		}
	}
	return t
}

func (r *report) memoryTable() table {
	t := table{Title: fmt.Sprintf("Resident memory, MB, with %d CRDs", r.CRDs), header: []string{"", "side", "each process", "sum", "ratio"}}
	for _, state := range []string{idle, installed, wasRead, peak, fresh} {
		for _, c := range r.Crowds {
			var each []string
			for name, megabytes := range c.Memory[state] {
				each = append(each, fmt.Sprintf("%s %.0f", name, megabytes))
			}
			slices.Sort(each)
			theirs := 0.0
			if s := r.crowd(stock); s != nil && state != fresh {
				theirs = s.sum(state)
			}
			t.rows = append(t.rows, []string{state, c.Side, strings.Join(each, ", "), fmt.Sprintf("%.0f", c.sum(state)), ratioTo(c.sum(state), theirs)})
		}
	}
	return t
}

func (r *report) phaseTable() table {
	t := table{
		Title:  fmt.Sprintf("Built-in resources while %d CRDs are installed: %d GETs and %d UPDATEs a second", r.CRDs, readsPerSecond, writesPerSecond),
		header: []string{"", "", "side", "seconds", "requests", "p50 ms", "p99 ms", "p99.9 ms", "ratio of p99"},
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
				t.rows = append(t.rows, []string{
					requests, name, p.Side, number(p.Seconds), fmt.Sprint(p.Count), number(p.P50), number(p.P99), number(p.P999), ratioTo(p.P99, theirs),
				})
			}
		}
	}
	return t
}

func (r *report) aimTable() table {
	t := table{Title: "Aims: the worst ratio to stock for each", header: []string{"", "neighbour", "aim"}}
	var ours []side
	for _, s := range r.sides {
		if !s.isStock() {
			ours = append(ours, s)
			t.header = append(t.header, s.Name, "", "which")
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
				cells = append(cells, number(one.Value), "met", one.Of)
			default:
				cells = append(cells, number(one.Value), "**not met**", one.Of)
			}
		}
		t.rows = append(t.rows, cells)
	}
	return t
}

func ratioTo(ours, theirs float64) string {
	if theirs == 0 {
		return ""
	}
	return fmt.Sprintf("×%.2f", ours/theirs)
}

// number formats a number with about three digits.
func number(n float64) string {
	switch {
	case n == 0:
		return "-"
	case n < 10:
		return fmt.Sprintf("%.2f", n)
	case n < 100:
		return fmt.Sprintf("%.1f", n)
	}
	return fmt.Sprintf("%.0f", n)
}
