// Copyright The Tripod Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"bufio"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"strings"

	"github.com/onsi/ginkgo/v2/types"
)

// wholePackage is the name for what fails outside of tests, such as TestMain.
const wholePackage = "(package)"

// suiteStart is how ginkgo begins the output of the test that runs a suite.
const suiteStart = "Running Suite: "

// event is a line of `go tool test2json`. Its documentation explains the fields.
type event struct {
	Action string
	Test   string
	Output string
}

// readEvents reads what test2json writes. It returns the results of the tests that were not skipped, and the name of the test that ran a
// ginkgo suite, if there was one. All output goes to log.
func readEvents(input io.Reader, log io.Writer) (tests map[string]result, suite string, err error) {
	tests = map[string]result{}
	outputs := map[string]string{}
	packageFailed := false
	reader := bufio.NewReader(input)
	for {
		line, err := reader.ReadBytes('\n')
		if errors.Is(err, io.EOF) {
			break
		} else if err != nil {
			return nil, "", err
		}
		var e event
		if err := json.Unmarshal(line, &e); err != nil {
			return nil, "", fmt.Errorf("read %q of test2json: %w", line, err)
		}
		switch e.Action {
		case "output":
			if _, err := io.WriteString(log, e.Output); err != nil {
				return nil, "", err
			}
			if strings.HasPrefix(e.Output, suiteStart) {
				suite = e.Test
			}
			outputs[e.Test] = lastLines(outputs[e.Test] + e.Output)
		case "pass", "fail":
			if e.Test == "" {
				packageFailed = e.Action == "fail"
				continue
			}
			tests[e.Test] = result{Passed: e.Action == "pass", Attempts: 1}
		}
	}
	quote(tests, outputs)
	if packageFailed && len((&results{Tests: tests}).failed()) == 0 {
		tests[wholePackage] = result{Attempts: 1, Failure: outputs[""]}
	}
	return tests, suite, nil
}

func quote(tests map[string]result, outputs map[string]string) {
	for name, one := range tests {
		if !one.Passed {
			one.Failure = outputs[name]
			tests[name] = one
		}
	}
}

// addSpecs adds the specs of ginkgo's report, which is not there if no suite ran, as parts of the test that ran the suite.
func addSpecs(tests map[string]result, suite, report string) error {
	data, err := os.ReadFile(report)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	var suites []types.Report
	if err == nil {
		err = json.Unmarshal(data, &suites)
	}
	if err != nil {
		return fmt.Errorf("read ginkgo's report: %w", err)
	}
	for _, s := range suites {
		for _, spec := range s.SpecReports {
			addSpec(tests, suite, spec)
		}
	}
	return nil
}

func addSpec(tests map[string]result, suite string, spec types.SpecReport) {
	if spec.LeafNodeType != types.NodeTypeIt && !spec.Failed() || spec.State.Is(types.SpecStateSkipped|types.SpecStatePending) {
		return
	}
	text := spec.FullText()
	if spec.LeafNodeType != types.NodeTypeIt {
		text = "[" + spec.LeafNodeType.String() + "]"
	}
	// Specs of one name are distinguished by their order, which is the same in all runs.
	name := suite + "/" + text
	for n := 2; ; n++ {
		if _, taken := tests[name]; !taken {
			break
		}
		name = fmt.Sprintf("%s/%s (%d)", suite, text, n)
	}
	one := result{Passed: spec.State.Is(types.SpecStatePassed), Attempts: 1}
	if !one.Passed {
		one.Failure = lastLines(spec.FailureMessage() + "\n" + spec.FailureLocation().String())
	}
	tests[name] = one
}
