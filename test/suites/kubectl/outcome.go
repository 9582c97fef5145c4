// Copyright The Tripod Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"bytes"
	"fmt"
	"strings"
)

const (
	// started and failed are how the scripts say that a test starts and that it has failed; allPassed that all have ended.
	started   = "Recording: "
	failed    = "Error when running "
	allPassed = "TESTS PASSED"
	// summary is what they say at the end where tests have failed.
	summary = "FAILED TESTS: "

	// canary has to fail, and does so before there is a server.
	canary = "record_command_canary"

	// between is the name for what the scripts check outside of tests. It passes when they come to their end.
	between = "(between the tests)"

	// quotedLines is how much of the output of a failed test is kept.
	quotedLines = 25
)

// result is what became of a test.
type result struct {
	Passed bool
	// Output is the end of the output of a test that has failed.
	Output string `json:",omitempty"`
}

// results are by the name of the test.
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
	// ended says that the scripts came to their end.
	ended   bool
	recent  []string
	partial []byte
}

// newOutcome returns an outcome that calls progress with a line when a test has ended.
func newOutcome(progress func(string)) *outcome {
	return &outcome{progress: progress, results: results{}}
}

// Write takes output of the scripts.
func (o *outcome) Write(data []byte) (int, error) {
	o.partial = append(o.partial, data...)
	for {
		line, rest, found := bytes.Cut(o.partial, []byte("\n"))
		if !found {
			return len(data), nil
		}
		o.partial = rest
		o.line(string(line))
	}
}

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

// finish is called when the next test starts: the one before has passed where it did not say that it has failed.
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
