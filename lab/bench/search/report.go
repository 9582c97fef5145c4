// Copyright The Tripod Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"bytes"
	_ "embed"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strconv"
	"strings"
	"text/template"
	"time"

	"github.com/tripod-k8s/tripod/lab/bench/process"
	"github.com/tripod-k8s/tripod/lab/bench/table"
)

// report is everything that was measured.
type report struct {
	Date     time.Time
	Took     time.Duration
	Command  string
	Machine  string
	Versions []string
	Objects  int
	Changes  int
	Clusters int
	Duration time.Duration
	Settings string
	// Load is how many processes waited for a processor in the minute before.
	Load  string
	Sides map[string]*compared
	Many  *many
	// Console is what words and the console took. Its run may be another one.
	Console *consoleReport
}

func newReport(o *options) *report {
	return &report{
		Date: time.Now().UTC(), Command: o.commandLine, Machine: process.Machine(), Versions: versions(o.clusterpedia), Objects: o.objects, Changes: o.changes, Clusters: o.clusters,
		Duration: o.duration, Settings: strings.Join(postgresSettings, ", "), Load: loadAverage(), Sides: map[string]*compared{},
	}
}

func loadAverage() string {
	text, err := os.ReadFile("/proc/loadavg")
	if err != nil {
		return ""
	}
	first, _, _ := strings.Cut(string(text), " ")
	return first
}

// busy reports whether others had work for the processors, too.
func (r *report) busy() bool {
	waiting, err := strconv.ParseFloat(r.Load, 64)
	return err != nil || waiting > float64(runtime.NumCPU())/2
}

// versions lists the programs that ran.
func versions(clusterpedia string) []string {
	found := []string{runtime.Version()}
	commands := [][]string{{"bin/tripod", "version"}, {"bin/test-assets/kube-apiserver", "--version"}, {"psql", "--version"}}
	if clusterpedia != "" {
		commands = append(commands, []string{filepath.Join(clusterpedia, "clustersynchro-manager"), "--version"})
	}
	for _, command := range commands {
		output, err := exec.Command(command[0], command[1:]...).Output()
		if err != nil {
			output = fmt.Appendf(nil, "%s: %v", command[0], err)
		}
		first, _, _ := strings.Cut(string(output), "\n")
		found = append(found, first)
	}
	return found
}

// tables returns what was measured.
func (r *report) tables() []table.Table {
	var all []table.Table
	for _, t := range []table.Table{r.aimTable(), r.syncTable(), r.lagTable(), r.watchTable(), r.searchTable(), r.manyTable(), r.manySearchTable()} {
		if len(t.Rows) > 0 {
			all = append(all, t)
		}
	}
	return all
}

// printed returns all tables, for the terminal.
func (r *report) printed() []table.Table {
	if r.Console == nil {
		return r.tables()
	}
	return append(r.tables(), r.Console.tables()...)
}

// both returns a row with a figure of each side, and the ratio.
func (r *report) both(name string, of func(*compared) float64) []string {
	cells, figures := []string{name}, []float64{}
	for _, side := range []string{clusterpedia, tripod} {
		figure := 0.0
		if c := r.Sides[side]; c != nil {
			figure = of(c)
		}
		cells, figures = append(cells, table.Number(figure)), append(figures, figure)
	}
	return append(cells, table.Ratio(figures[1], figures[0]))
}

var sideColumns = []string{"", clusterpedia, tripod, "ratio"}

func (r *report) syncTable() table.Table {
	t := table.Table{Title: fmt.Sprintf("The first copy of %d objects", r.Objects), Header: sideColumns}
	if len(r.Sides) == 0 {
		return t
	}
	for _, figure := range []struct {
		name string
		of   func(firstSync) float64
	}{
		{"seconds", func(f firstSync) float64 { return f.Seconds }},
		{"processor time of the process that copies, s", func(f firstSync) float64 { return f.CPU }},
		{"processor time of PostgreSQL, s", func(f firstSync) float64 { return f.PostgresCPU }},
		{"processor time of the members' kube-apiservers, s", func(f firstSync) float64 { return f.MembersCPU }},
		{"memory of the process that copies before, MB", func(f firstSync) float64 { return f.Empty }},
		{"at most, MB", func(f firstSync) float64 { return f.Peak }},
		{"at rest, MB", func(f firstSync) float64 { return f.Rest }},
		{"more than before, at most, MB", func(f firstSync) float64 { return f.Peak - f.Empty }},
		{"more than before, at rest, MB", func(f firstSync) float64 { return max(f.Rest-f.Empty, 0) }},
		{"the database, MB", func(f firstSync) float64 { return f.DatabaseMB }},
		{"processor time of both processes at rest, % of a CPU", func(f firstSync) float64 { return f.RestCPU }},
		{"processor time of PostgreSQL at rest, % of a CPU", func(f firstSync) float64 { return f.RestPostgresCPU }},
	} {
		t.Rows = append(t.Rows, r.both(figure.name, func(c *compared) float64 { return figure.of(c.Sync) }))
	}
	return t
}

func (r *report) lagTable() table.Table {
	t := table.Table{Title: fmt.Sprintf("Changes, %d a second: from etcd of the member to the database", r.Changes), Header: sideColumns}
	if c := r.Sides[tripod]; c == nil || c.Lag == nil {
		return t
	}
	for _, figure := range []struct {
		name string
		of   func(*lag) float64
	}{
		{"changes/s", func(l *lag) float64 { return l.PerSecond }},
		{"p50 ms", func(l *lag) float64 { return l.P50 }},
		{"p99 ms", func(l *lag) float64 { return l.P99 }},
		{"at most ms", func(l *lag) float64 { return l.Most }},
		{fmt.Sprintf("not there after %s, of those looked for, %%", lagLimit), func(l *lag) float64 { return 100 * float64(l.NeverSeen) / float64(l.NeverSeen+l.Samples) }},
		{"CPU ms/change, process", func(l *lag) float64 { return l.CPU }},
		{"CPU ms/change, PostgreSQL", func(l *lag) float64 { return l.PostgresCPU }},
		{"the history of a change in the database, kB", func(l *lag) float64 { return l.HistoryKB }},
	} {
		t.Rows = append(t.Rows, r.both(figure.name, func(c *compared) float64 {
			if c.Lag == nil {
				return 0
			}
			return figure.of(c.Lag)
		}))
	}
	return t
}

func (r *report) watchTable() table.Table {
	t := table.Table{Title: fmt.Sprintf("%d watches, Tripod alone: from etcd of the member to the clients", watches), Header: []string{"", ""}}
	if c := r.Sides[tripod]; c != nil && c.Watches != nil {
		w := c.Watches
		t.Rows = [][]string{
			{"changes/s", table.Number(w.PerSecond)}, {"events/s, of all watches", table.Number(w.EventsPerSecond)}, {"events", fmt.Sprint(w.Events)}, {"missing events", fmt.Sprint(w.Missing)},
			{"p50 ms", table.Number(w.P50)}, {"p99 ms", table.Number(w.P99)}, {"at most ms", table.Number(w.Most)}, {"CPU ms/event, the process that answers", table.Number(w.CPU)},
		}
	}
	return t
}

func (r *report) searchTable() table.Table {
	t := table.Table{Title: fmt.Sprintf("Searches among %d objects", r.Objects), Header: []string{
		"", "objects", "p50 ms " + clusterpedia, tripod, "p99 ms " + clusterpedia, tripod, "CPU ms/request, API, " + clusterpedia, tripod, "ratio", "CPU ms/request, PostgreSQL, " + clusterpedia, tripod, "ratio",
	}}
	ours := r.Sides[tripod]
	if ours == nil {
		return t
	}
	for _, f := range ours.Found {
		other := r.foundBy(clusterpedia, f.Name)
		t.Rows = append(t.Rows, []string{
			f.Name, fmt.Sprint(f.Objects), table.Number(other.P50), table.Number(f.P50), table.Number(other.P99), table.Number(f.P99),
			table.Number(other.CPU), table.Number(f.CPU), table.Ratio(f.CPU, other.CPU), table.Number(other.PostgresCPU), table.Number(f.PostgresCPU), table.Ratio(f.PostgresCPU, other.PostgresCPU),
		})
	}
	return t
}

func (r *report) foundBy(side, name string) found {
	if c := r.Sides[side]; c != nil {
		for _, f := range c.Found {
			if f.Name == name {
				return f
			}
		}
	}
	return found{}
}

func (r *report) manyTable() table.Table {
	t := table.Table{Title: "Many objects, Tripod alone", Header: []string{"", ""}}
	if m := r.Many; m != nil {
		t.Rows = [][]string{
			{"objects", fmt.Sprint(m.Objects)}, {"loaded in, s", table.Number(m.Loaded.Seconds)}, {"processor time of PostgreSQL for that, s", table.Number(m.Loaded.PostgresCPU)},
			{"lists that search asked its members for when it started", fmt.Sprint(m.Lists)}, {"memory of the process that copies, at rest, MB", table.Number(m.Rest)}, {"memory of the process that answers, after all searches, MB", table.Number(m.ServesRest)}, {"the database, MB", table.Number(m.DatabaseMB)},
		}
	}
	return t
}

func (r *report) manySearchTable() table.Table {
	t := table.Table{Title: "Searches among the many objects", Header: []string{"", "objects", "requests", "p50 ms", "p99 ms", "CPU ms/request, API", "CPU ms/request, PostgreSQL"}}
	if r.Many != nil {
		for _, f := range r.Many.Found {
			t.Rows = append(t.Rows, []string{
				f.Name, fmt.Sprint(f.Objects), fmt.Sprint(f.Requests), table.Number(f.P50), table.Number(f.P99), table.Number(f.CPU), table.Number(f.PostgresCPU),
			})
		}
	}
	return t
}

//go:embed benchmarks-search.md.tmpl
var text string

var page = template.Must(template.New("benchmarks-search").Parse(text))

// writeDocs writes the page, or its section about the console if nothing else was measured.
func (r *report) writeDocs(path string) error {
	if r.Console != nil && r.Many == nil && len(r.Sides) == 0 {
		return r.replaceSection(path)
	}
	section, err := r.section(path)
	if err != nil {
		return err
	}
	var markdown bytes.Buffer
	err = page.Execute(&markdown, map[string]any{
		"Report": r, "Tables": r.tables(), "Took": r.Took.Round(time.Minute).Minutes(), "Members": members, "Many": r.Clusters, "Sampled": sampled,
		"Watches": watches, "Busy": r.busy(), "Section": string(sectionBegins) + string(section) + string(sectionEnds),
	})
	if err != nil {
		return fmt.Errorf("cannot write %s: %w", path, err)
	}
	return os.WriteFile(path, markdown.Bytes(), 0o644)
}
