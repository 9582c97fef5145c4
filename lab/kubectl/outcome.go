// Copyright The Tripod Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"fmt"
	"strings"
)

const (
	// With started, the scripts report that a test starts, with failed that it failed, and with allPassed that all tests ended.
	started   = "Recording: "
	failed    = "Error when running "
	allPassed = "TESTS PASSED"
	// summary starts the last line if tests failed.
	summary = "FAILED TESTS: "

	// canary must fail, and does so before a server runs.
	canary = "record_command_canary"

	// between is the name for the checks outside of tests. It passes if the scripts run to their end.
	between = "(between the tests)"

	// quotedLines is how many lines of a failed test's output are kept.
	quotedLines = 25
)

// result is the result of a test.
type result struct {
	Passed bool
	// Output is the end of the output of a failed test.
	Output string `json:",omitempty"`
}

// results are results by the name of the test.
type results map[string]result

func (r results) count() int {
	n := 0
	for _, one := range r {
		if one.Passed {
			n++
		}
	}
	return n
}

// outcome reads the output of the scripts.
type outcome struct {
	progress func(string)
	results  results
	current  string
	// ended is set when the scripts ran to their end.
	ended  bool
	recent []string
}

// newOutcome returns an outcome that calls progress with a line when a test ends.
func newOutcome(progress func(string)) *outcome {
	return &outcome{progress: progress, results: results{}}
}

// line takes a line of the output.
func (o *outcome) line(line string) {
	if name, found := strings.CutPrefix(line, started); found {
		o.finish()
		if name != canary {
			o.current, o.recent = name, nil
		}
		return
	}
	if name, found := strings.CutPrefix(line, failed); found && name != canary {
		o.set(name, result{Output: strings.Join(o.recent, "\n")})
		return
	}
	if strings.Contains(line, allPassed) || strings.HasPrefix(line, summary) {
		o.finish()
		o.ended = true
	}
	o.recent = append(o.recent, line)
	o.recent = o.recent[max(0, len(o.recent)-quotedLines):]
}

// finish is called when the next test starts. The last test has passed unless it reported a failure.
func (o *outcome) finish() {
	if _, known := o.results[o.current]; !known && o.current != "" {
		o.set(o.current, result{Passed: true})
	}
	o.current = ""
}

func (o *outcome) set(name string, r result) {
	o.results[name] = r
	state := "failed"
	if r.Passed {
		state = "passed"
	}
	o.progress(fmt.Sprintf("%3d %s %s", len(o.results), state, name))
}

// end returns the results, after all output was written.
func (o *outcome) end() results {
	if o.ended {
		o.results[between] = result{Passed: true}
		return o.results
	}
	failure := result{Output: strings.Join(o.recent, "\n")}
	if _, known := o.results[o.current]; !known && o.current != "" {
		o.set(o.current, failure)
	}
	o.set(between, failure)
	return o.results
}
