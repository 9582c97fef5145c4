// Copyright The Tripod Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"encoding/json"
	"fmt"
	"os"
	"strings"
	"time"

	"github.com/onsi/ginkgo/v2/types"
)

// result is the result of a spec.
type result struct {
	State    types.SpecState
	Attempts int
	Took     time.Duration
	Failure  string `json:",omitempty"`
}

func (r result) passed() bool { return r.State == types.SpecStatePassed }

// results are results by the name of the spec.
type results map[string]result

func (r results) count() int {
	n := 0
	for _, one := range r {
		if one.passed() {
			n++
		}
	}
	return n
}

// readReport reads ginkgo's own report, without skipped specs.
func readReport(path string) (results, error) {
	data, err := os.ReadFile(path)
	if err != nil {
		return nil, fmt.Errorf("read ginkgo's report: %w", err)
	}
	var reports []types.Report
	if err := json.Unmarshal(data, &reports); err != nil {
		return nil, fmt.Errorf("read ginkgo's report %s: %w", path, err)
	}
	found := results{}
	for _, report := range reports {
		for _, spec := range report.SpecReports {
			if spec.LeafNodeType != types.NodeTypeIt {
				if spec.Failed() {
					return nil, fmt.Errorf("%s: %s", spec.LeafNodeType, spec.FailureMessage())
				}
				continue
			}
			if spec.State.Is(types.SpecStateSkipped|types.SpecStatePending) && spec.FailureMessage() == "" {
				continue
			}
			found[spec.FullText()] = result{
				State: spec.State, Attempts: spec.NumAttempts, Took: spec.RunTime, Failure: strings.TrimSpace(spec.FailureMessage()),
			}
		}
	}
	return found, nil
}
