// Copyright The Tripod Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"bytes"
	"fmt"
	"os"
	"time"

	"github.com/tripod-k8s/tripod/lab/bench/table"
)

// consoleReport is what searches by words and pages of the console took, and when.
type consoleReport struct {
	Date              time.Time
	Command, Load     string
	Versions          []string
	Objects, Clusters int
	Found             []found
	Views             []viewed
	Shown             []shown
}

func newConsoleReport(o *options, m *many) *consoleReport {
	return &consoleReport{
		Date: time.Now().UTC(), Command: o.commandLine, Load: loadAverage(), Versions: versions(""), Objects: m.Objects, Clusters: o.clusters,
	}
}

// tables returns the tables of the section.
func (c *consoleReport) tables() []table.Table {
	byWords := table.Table{Title: "Searches by words", Header: []string{
		"", "objects", "requests", "p50 ms", "p99 ms", "aim, p99 ms", "CPU ms/request, API", "CPU ms/request, PostgreSQL",
	}}
	for _, f := range c.Found {
		byWords.Rows = append(byWords.Rows, []string{
			f.Name, fmt.Sprint(f.Objects), fmt.Sprint(f.Requests), table.Number(f.P50), table.Number(f.P99), fmt.Sprintf("≤ %g", f.Aim),
			table.Number(f.CPU), table.Number(f.PostgresCPU),
		})
	}
	pages := table.Table{Title: "Pages of the console", Header: []string{"", "requests", "p50 ms", "p99 ms", "kB"}}
	for _, v := range c.Views {
		pages.Rows = append(pages.Rows, []string{
			v.Name, fmt.Sprint(v.Requests), table.Number(v.P50), table.Number(v.P99), table.Number(float64(v.Bytes) / 1e3),
		})
	}
	inChromium := table.Table{Title: "Pages in Chromium", Header: []string{"", "visits", "first paint, p50 ms", "first paint, at most ms", "loaded, p50 ms"}}
	for _, s := range c.Shown {
		inChromium.Rows = append(inChromium.Rows, []string{
			s.Name, fmt.Sprint(visits), table.Number(s.Painted), table.Number(s.MaxPainted), table.Number(s.Load),
		})
	}
	return []table.Table{byWords, pages, inChromium}
}

// The section about the console is between these lines, so that a run of that part alone can replace it.
var (
	sectionBegins = []byte("<!-- console: begin -->\n")
	sectionEnds   = []byte("<!-- console: end -->\n")
)

// section returns the section about the console: of this run, or else the one that the page has.
func (r *report) section(path string) ([]byte, error) {
	if r.Console != nil {
		var markdown bytes.Buffer
		err := page.ExecuteTemplate(&markdown, "console", map[string]any{"Console": r.Console, "Tables": r.Console.tables()})
		return markdown.Bytes(), err
	}
	text, err := os.ReadFile(path)
	if err != nil && !os.IsNotExist(err) {
		return nil, err
	}
	_, section, _, _ := cutSection(text)
	return section, nil
}

// cutSection returns the text before the section, the section, and the text behind it.
func cutSection(text []byte) (before, section, after []byte, found bool) {
	before, rest, begins := bytes.Cut(text, sectionBegins)
	section, after, ends := bytes.Cut(rest, sectionEnds)
	return before, section, after, begins && ends
}

// replaceSection writes the section about the console into a page, and leaves the rest as it is.
func (r *report) replaceSection(path string) error {
	text, err := os.ReadFile(path)
	if err != nil {
		return err
	}
	before, _, after, found := cutSection(text)
	if !found {
		return fmt.Errorf("%s has no section about the console: it needs the lines %s and %s", path,
			bytes.TrimSpace(sectionBegins), bytes.TrimSpace(sectionEnds))
	}
	section, err := r.section(path)
	if err != nil {
		return err
	}
	return os.WriteFile(path, bytes.Join([][]byte{before, sectionBegins, section, sectionEnds, after}, nil), 0o644)
}
