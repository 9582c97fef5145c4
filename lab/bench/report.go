// Copyright The Tripod Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"encoding/json"
	"fmt"
	"maps"
	"os"
	"os/exec"
	"runtime"
	"slices"
	"strings"
	"time"

	"github.com/tripod-k8s/tripod/lab/bench/process"
	"github.com/tripod-k8s/tripod/lab/bench/table"
)

// report is what a run found. `-o json` prints it.
type report struct {
	Date    time.Time
	Took    time.Duration
	Command string
	// Machine and Versions are for people.
	Machine  string
	Versions []string
	Rounds   int
	Duration time.Duration
	CRDs     int
	// GarbageCollection is what each process of each side reports.
	GarbageCollection map[string]map[string]string
	// Starts are the seconds from start to ready of each side in each round.
	Starts map[string][]float64
	// Idle has the shares of a processor that each side takes without requests.
	Idle   map[string][]float64
	Rows   []*row
	Crowds []*crowd
	Phases []phase
	Aims   []aim
	// OneProcessor is what was found with one processor of Go for each process, or nil.
	OneProcessor *report `json:",omitempty"`
	// APIServices is what was found about API services of others, or nil.
	APIServices *apiServices `json:",omitempty"`

	sides []side
}

// row is what was found for a workload.
type row struct {
	Workload, Resource, Credentials string
	// Condition is what ran beside the workload.
	Condition string
	// Rate is in requests per second.
	Rate float64
	// Rounds has what each round measured for each side, Medians the medians of the rounds.
	Rounds  map[string]map[measure][]float64
	Medians map[string]map[measure]float64

	fanOut bool
	// base is the side that the others are compared with.
	base string
}

// phase is how long requests to built-in resources took during a phase of a crowd, in milliseconds.
type phase struct {
	Side, Name, Requests string
	Seconds              float64
	P50, P99, P999       float64
	Count                int64
}

func newReport(o *options) *report {
	return &report{
		Date: time.Now().UTC(), Command: o.commandLine, Machine: process.Machine(), Versions: versions(), Rounds: o.rounds, Duration: o.duration,
		CRDs: len(o.crds), GarbageCollection: map[string]map[string]string{}, Starts: map[string][]float64{}, Idle: map[string][]float64{},
		sides: o.sides,
	}
}

// measured is what a run has found, as results.json has it.
type measured struct {
	Date              time.Time
	Took, Duration    time.Duration
	Machine           string
	Versions          []string
	Rounds            int
	GarbageCollection map[string]map[string]string
	Starts, Idle      map[string][]float64
	Rows              []*row
}

// goOn takes what an earlier run of the same versions on this machine has found for workloads, and what it has found in all rounds for one
// processor and for API services of others.
func (r *report) goOn(o *options) error {
	data, err := os.ReadFile(o.goOnFrom)
	if err != nil {
		return err
	}
	var before struct {
		measured
		OneProcessor *measured
		APIServices  *struct {
			measured
			Failovers   map[string][]failover
			Revocations map[string][]float64
		}
	}
	if err := json.Unmarshal(data, &before); err != nil {
		return fmt.Errorf("%s has no results: %w", o.goOnFrom, err)
	}
	if !slices.Equal(before.Versions, r.Versions) || before.Machine != r.Machine {
		return fmt.Errorf("%s is of %s with %q, and this is %s with %q", o.goOnFrom, before.Machine, before.Versions, r.Machine, r.Versions)
	}
	r.take(&before.measured, workloads())
	if of := before.OneProcessor; of != nil && of.ended(len(oneProcessorWorkloads()), o.sides) {
		r.OneProcessor = newReport(o)
		r.OneProcessor.take(of, workloads())
	}
	if of := before.APIServices; of != nil && len(of.Failovers[ownBackend]) == of.Rounds {
		r.APIServices = o.newAPIServices()
		r.APIServices.Failovers, r.APIServices.Revocations = of.Failovers, of.Revocations
		r.APIServices.take(&of.measured, apiServiceWorkloads())
	}
	return nil
}

// ended reports whether so many workloads were measured on each of these sides, in each round.
func (m *measured) ended(workloads int, sides []side) bool {
	for _, one := range m.Rows {
		for _, s := range sides {
			measures := one.Rounds[s.Name]
			if !slices.ContainsFunc(slices.Collect(maps.Values(measures)), func(found []float64) bool { return len(found) == m.Rounds }) {
				return false
			}
		}
	}
	return len(m.Rows) == workloads
}

func (r *report) take(m *measured, all []workload) {
	r.Date, r.Took, r.Rounds, r.Duration = m.Date, m.Took, m.Rounds, m.Duration
	r.GarbageCollection, r.Starts, r.Idle, r.Rows = m.GarbageCollection, m.Starts, m.Idle, m.Rows
	for _, one := range r.Rows {
		one.base = r.base()
		one.fanOut = slices.ContainsFunc(all, func(w workload) bool { return w.Name == one.Workload && w.fanOut })
	}
}

// start records how long a start took.
func (r *report) start(s side, took time.Duration) {
	r.Starts[s.Name] = append(r.Starts[s.Name], took.Seconds())
}

// base is the side that the others are compared with.
func (r *report) base() string {
	if len(r.sides) == 0 || slices.ContainsFunc(r.sides, side.isStock) {
		return stock
	}
	return r.sides[0].Name
}

// add records what a round found.
func (r *report) add(s side, w workload, condition string, v values) {
	i := slices.IndexFunc(r.Rows, func(one *row) bool {
		return one.Workload == w.Name && one.Resource == w.Resource && one.Credentials == w.Credentials && one.Condition == condition
	})
	if i < 0 {
		i = len(r.Rows)
		r.Rows = append(r.Rows, &row{
			Workload: w.Name, Resource: w.Resource, Credentials: w.Credentials, Condition: condition, Rate: w.Rate, fanOut: w.fanOut, base: r.base(),
			Rounds: map[string]map[measure][]float64{},
		})
	}
	rounds := r.Rows[i].Rounds
	if rounds[s.Name] == nil {
		rounds[s.Name] = map[measure][]float64{}
	}
	for name, value := range v {
		rounds[s.Name][name] = append(rounds[s.Name][name], value)
	}
}

// finish computes what follows from the measurements.
func (r *report) finish() {
	for _, one := range r.Rows {
		one.Medians = map[string]map[measure]float64{}
		for name, measures := range one.Rounds {
			one.Medians[name] = map[measure]float64{}
			for what, found := range measures {
				one.Medians[name][what] = table.Median(found)
			}
		}
	}
	for _, c := range r.Crowds {
		for _, write := range []bool{false, true} {
			requests := map[bool]string{false: "GET", true: "UPDATE"}[write]
			for _, name := range phases {
				from, to := c.Began[name], c.end(name)
				times := c.of(write, from, to)
				r.Phases = append(r.Phases, phase{
					Side: c.Side, Name: name, Requests: requests, Seconds: to.Sub(from).Seconds(), Count: times.Count(),
					P50: times.Milliseconds(50), P99: times.Milliseconds(99), P999: times.Milliseconds(99.9),
				})
			}
		}
	}
	if r.OneProcessor != nil {
		r.OneProcessor.finish()
		r.OneProcessor.Aims = nil // the whole report judges them, by limits of their own
	}
	r.Aims = r.aims()
	if r.APIServices != nil {
		r.APIServices.finish()
		r.APIServices.Aims = r.APIServices.aims()
	}
}

// name is the name of the workload, with its condition unless it ran alone.
func (one *row) name() string {
	if one.Condition == alone {
		return one.Workload
	}
	return fmt.Sprintf("%s (neighbour: %s)", one.Workload, one.Condition)
}

// ratio returns the ratio of a measure of a side to that of the base, and whether both exist.
func (one *row) ratio(side string, what measure) (float64, bool) {
	theirs, ours := one.Medians[one.base][what], one.Medians[side][what]
	return ours / theirs, theirs > 0 && ours > 0
}

// crowd returns what happened to a side, or nil.
func (r *report) crowd(side string) *crowd {
	i := slices.IndexFunc(r.Crowds, func(c *crowd) bool { return c.Side == side })
	if i < 0 {
		return nil
	}
	return r.Crowds[i]
}

// versions lists the programs that ran.
func versions() []string {
	found := []string{runtime.Version()}
	for _, command := range [][]string{
		{"bin/tripod", "version"}, {"bin/test-assets/kube-apiserver", "--version"}, {"bin/test-assets/etcd", "--version"},
	} {
		output, err := exec.Command(command[0], command[1:]...).Output()
		if err != nil {
			output = fmt.Appendf(nil, "%s: %v", command[0], err)
		}
		first, _, _ := strings.Cut(string(output), "\n")
		found = append(found, first)
	}
	return found
}
