// Copyright The Tripod Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/tripod-k8s/tripod/base/service/atomicfile"
)

// report has the results of all faults, including those of earlier runs, in a file.
type report struct {
	path    string
	mu      sync.Mutex
	Date    time.Time `json:"date"`
	Results []result  `json:"results"`
}

func openReport(artifacts string) (*report, error) {
	r := &report{path: filepath.Join(artifacts, "results.json")}
	return r, readReport(r.path, r)
}

// add stores a result, and replaces an earlier one.
func (r *report) add(one result) error {
	r.mu.Lock()
	defer r.mu.Unlock()
	same := func(other result) bool { return other.Fault == one.Fault && other.Side == one.Side }
	r.Results = append(slices.DeleteFunc(r.Results, same), one)
	r.Date = time.Now()
	data, err := json.MarshalIndent(r, "", "  ")
	if err != nil {
		return err
	}
	return atomicfile.Write(r.path, append(data, '\n'))
}

func (r *report) writeJSON(w io.Writer) error {
	encoder := json.NewEncoder(w)
	encoder.SetIndent("", "  ")
	return encoder.Encode(r)
}

// wrong returns an error if data was lost, a cluster did not recover, or a right lasted too long.
func (r *report) wrong() error {
	var errs []error
	for _, one := range r.Results {
		if !sideOf(one.Side).stock {
			errs = append(errs, one.wrong()...)
		}
	}
	return errors.Join(errs...)
}

// wrong returns what must never happen.
func (r result) wrong() []error {
	var errs []error
	say := func(format string, args ...any) {
		errs = append(errs, fmt.Errorf("%s: %s: %s", r.Side, r.Fault, fmt.Sprintf(format, args...)))
	}
	if r.NotRecovered != "" {
		say("it did not recover: %s", r.NotRecovered)
	}
	for _, lost := range r.Lost {
		say("%s", lost)
	}
	for _, way := range ways {
		if r.Stale[way] > r.Bound[way] {
			say("a %s was in force for %s after its end, which is more than %s", way, seconds(r.Stale[way]), seconds(r.Bound[way]))
		}
	}
	return errs
}

// String returns the result in one line.
func (r result) String() string {
	if r.LeftOut != "" {
		return "left out: " + r.LeftOut
	}
	sum, took := time.Duration(0), make([]string, 0, len(phases))
	for _, phase := range phases {
		sum += r.Took[phase]
		took = append(took, phase+" "+seconds(r.Took[phase]))
	}
	return fmt.Sprintf("%s %v; took %s (%s)", strings.Join(r.cells(), " | "), r.Reasons, seconds(sum), strings.Join(took, ", "))
}

var header = []string{
	"fault", "of", "reads failed", "writes", "custom reads", "custom writes", "tokens", "discovery",
	"noticed", "last failure", "recovered", "lost", "stale right", "token", "certificate", "restarts", "kube-apiserver",
}

func (r result) cells() []string {
	cells := []string{r.Fault, r.Side}
	if r.LeftOut != "" {
		return append(cells, "left out: "+r.LeftOut)
	}
	for _, kind := range kinds {
		cells = append(cells, fmt.Sprintf("%d of %d", r.Requests[kind].Failed, r.Requests[kind].Sent))
	}
	recovered := seconds(r.Recovered)
	if r.NotRecovered != "" {
		recovered = "**no**"
	}
	lost := "nothing"
	if len(r.Lost) > 0 {
		lost = fmt.Sprintf("**%d**", len(r.Lost))
	}
	right := byRight
	if r.Stale[byCustomRight] > r.Stale[byRight] {
		right = byCustomRight
	}
	return append(cells, since(r.Noticed), since(r.FailedUntil), recovered, lost, r.stale(right), r.stale(byToken), r.stale(byCertificate), fmt.Sprint(r.Restarts))
}

// stale returns how long a right lasted after its end, and the limit.
func (r result) stale(way string) string {
	measured, known := r.Stale[way]
	switch {
	case !known:
		return "–"
	case measured > r.Bound[way]:
		return fmt.Sprintf("**%s** of %s", seconds(measured), seconds(r.Bound[way]))
	}
	return fmt.Sprintf("%s of %s", seconds(measured), seconds(r.Bound[way]))
}

func since(d time.Duration) string {
	if d == 0 {
		return "–"
	}
	return seconds(d)
}

func seconds(d time.Duration) string { return fmt.Sprintf("%.1f s", d.Seconds()) }

// table returns the table of a group as Markdown.
func (r *report) table(group string) string {
	var table strings.Builder
	fmt.Fprintf(&table, "| %s |\n|%s\n", strings.Join(header, " | "), strings.Repeat(" --- |", len(header)))
	for _, f := range faults() {
		for _, side := range f.sides {
			i := slices.IndexFunc(r.Results, func(one result) bool { return one.Fault == f.name && one.Side == side })
			if f.group != group || i < 0 {
				continue
			}
			cells := r.Results[i].cells()
			if r.Results[i].LeftOut == "" {
				cells = append(cells, r.compared(f, side))
			}
			fmt.Fprintf(&table, "| %s |\n", strings.Join(append(cells, make([]string, len(header)-len(cells))...), " | "))
		}
	}
	return table.String()
}

// compared returns in short what became of kube-apiserver under the same fault, or the one that compares best: how many requests failed, and until when.
func (r *report) compared(f fault, side string) string {
	i := slices.IndexFunc(r.Results, func(one result) bool {
		return one.Fault == cmp.Or(f.like, f.name) && one.Side == stockOf(side) && one.LeftOut == ""
	})
	if i < 0 {
		return "–"
	}
	var all count
	for _, one := range r.Results[i].Requests {
		all.Failed += one.Failed
		all.Sent += one.Sent
	}
	return fmt.Sprintf("%d of %d, %s", all.Failed, all.Sent, since(r.Results[i].FailedUntil))
}

// knows reports whether the report has a fault of a group.
func (r *report) knows(group string) bool {
	return slices.ContainsFunc(r.Results, func(one result) bool {
		return slices.ContainsFunc(faults(), func(f fault) bool { return f.group == group && f.name == one.Fault })
	})
}

// summary returns when and where the results were measured.
func (r *report) summary() string {
	leftOut := 0
	for _, one := range r.Results {
		if one.LeftOut != "" {
			leftOut++
		}
	}
	return fmt.Sprintf("Measured on %s, on %d CPUs (%s/%s). %d faults were tried; %d were left out, because the machine did not allow them.\n",
		r.Date.Format(time.DateOnly), runtime.NumCPU(), runtime.GOOS, runtime.GOARCH, len(r.Results)-leftOut, leftOut)
}

func groups() []string {
	var all []string
	for _, f := range faults() {
		if !slices.Contains(all, f.group) {
			all = append(all, f.group)
		}
	}
	return all
}

func (r *report) writeTables(w io.Writer) {
	fmt.Fprintln(w, r.summary())
	for _, group := range groups() {
		if r.knows(group) {
			fmt.Fprintf(w, "%s\n", r.table(group))
		}
	}
}

// writeDocs writes the tables into the page.
func (r *report) writeDocs(path string) error {
	blocks := map[string]string{"summary": r.summary()}
	for _, group := range groups() {
		blocks[group] = r.table(group)
	}
	return writeBlocks(path, blocks)
}

// writeBlocks writes between the markers of a page, <!-- faults: NAME --> and <!-- end -->.
func writeBlocks(path string, blocks map[string]string) error {
	data, err := os.ReadFile(path)
	if err != nil {
		return err
	}
	page := string(data)
	for name, block := range blocks {
		begin, end := "<!-- faults: "+name+" -->\n", "<!-- end -->"
		head, rest, found := strings.Cut(page, begin)
		_, tail, ended := strings.Cut(rest, end)
		if !found || !ended {
			return fmt.Errorf("%s has no place for %s", path, name)
		}
		page = head + begin + block + end + tail
	}
	return atomicfile.Write(path, []byte(page))
}
