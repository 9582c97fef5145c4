// Copyright The Tripod Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"
)

// quotedLength is how much of the output of a failed test is kept.
const quotedLength = 2000

// result is the result of a test.
type result struct {
	Passed bool `json:"passed"`
	// Attempts is how often the test ran.
	Attempts int    `json:"attempts"`
	Failure  string `json:"failure,omitempty"`
}

// results are the results of the tests of a package on one side.
type results struct {
	// Tests are the results by the names of tests. The specs of a ginkgo suite count as parts of the test that runs the suite.
	Tests map[string]result `json:"tests"`
	// Took is the time of the first run of all tests.
	Took time.Duration `json:"took"`
	// version is that of the API server.
	version string
}

func (r *results) passed() int {
	n := 0
	for _, one := range r.Tests {
		if one.Passed {
			n++
		}
	}
	return n
}

// failed returns the names of the tests that failed, sorted.
func (r *results) failed() []string {
	return slices.DeleteFunc(slices.Sorted(maps.Keys(r.Tests)), func(name string) bool { return r.Tests[name].Passed })
}

func (r *results) String() string {
	return fmt.Sprintf("%d of %d passed in %s", r.passed(), len(r.Tests), r.Took.Round(100*time.Millisecond))
}

// merge takes over the results of a second run of what has failed. A test that failed without its parts, such as one whose preparation
// failed, gives way to the parts that the second run has of it.
func (r *results) merge(again *results) {
	for name, second := range again.Tests {
		if first, ran := r.Tests[name]; !ran || !first.Passed {
			second.Attempts = first.Attempts + 1
			r.Tests[name] = second
		}
	}
	for name, first := range r.Tests {
		if _, both := again.Tests[name]; !both && !first.Passed && hasParts(again.Tests, name) {
			delete(r.Tests, name)
		}
	}
}

func hasParts(tests map[string]result, name string) bool {
	for other := range tests {
		if strings.HasPrefix(other, name+"/") {
			return true
		}
	}
	return false
}

// dropParents removes tests whose results are those of their parts. A test that fails while its parts pass stays.
func dropParents(tests map[string]result) {
	for name, parent := range maps.Clone(tests) {
		hasParts, partFailed := false, false
		for other, part := range tests {
			if strings.HasPrefix(other, name+"/") {
				hasParts = true
				partFailed = partFailed || !part.Passed
			}
		}
		if hasParts && (parent.Passed || partFailed) {
			delete(tests, name)
		}
	}
}

// lastLines returns the end of a text, cut at a line.
func lastLines(text string) string {
	text = strings.TrimSpace(text)
	if len(text) <= quotedLength {
		return text
	}
	text = text[len(text)-quotedLength:]
	_, rest, found := strings.Cut(text, "\n")
	if !found {
		return text
	}
	return "...\n" + rest
}
