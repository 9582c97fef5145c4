// Copyright The Tripod Authors.
// SPDX-License-Identifier: Apache-2.0

package e2esuite

import (
	"encoding/json"
	"fmt"
	"os"
	"strings"
	"time"

	"github.com/onsi/ginkgo/v2/types"
)

// Result is the result of a spec.
type Result struct {
	State    types.SpecState
	Attempts int
	Took     time.Duration
	Failure  string `json:",omitempty"`
}

// Passed reports whether the spec passed, at whichever attempt.
func (r Result) Passed() bool { return r.State == types.SpecStatePassed }

// interrupted reports whether the end of the run ended the spec.
func (r Result) interrupted() bool {
	return r.State == types.SpecStateInterrupted || strings.HasPrefix(r.Failure, "A suite timeout occurred")
}

// Results are results by the name of the spec.
type Results map[string]Result

// Count returns how many specs passed.
func (r Results) Count() int {
	n := 0
	for _, one := range r {
		if one.Passed() {
			n++
		}
	}
	return n
}

// readReport reads the results of all specs but skipped ones.
func readReport(path string) (Results, error) {
	found := Results{}
	err := eachSpec(path, func(spec types.SpecReport) {
		if spec.State.Is(types.SpecStateSkipped|types.SpecStatePending) && spec.FailureMessage() == "" {
			return
		}
		found[spec.FullText()] = Result{
			State: spec.State, Attempts: spec.NumAttempts, Took: spec.RunTime, Failure: strings.TrimSpace(spec.FailureMessage()),
		}
	})
	return found, err
}

// eachSpec reads ginkgo's own report. It is an error if the suite could not start.
func eachSpec(path string, do func(types.SpecReport)) error {
	data, err := os.ReadFile(path)
	if err != nil {
		return fmt.Errorf("read ginkgo's report: %w", err)
	}
	var reports []types.Report
	if err := json.Unmarshal(data, &reports); err != nil {
		return fmt.Errorf("read ginkgo's report %s: %w", path, err)
	}
	for _, report := range reports {
		for _, spec := range report.SpecReports {
			if spec.LeafNodeType == types.NodeTypeIt {
				do(spec)
			} else if spec.Failed() {
				return fmt.Errorf("%s: %s", spec.LeafNodeType, spec.FailureMessage())
			}
		}
	}
	return nil
}

// Took returns the sum of the times of all specs.
func (r Results) Took() time.Duration {
	var sum time.Duration
	for _, one := range r {
		sum += one.Took
	}
	return sum.Round(time.Second)
}
