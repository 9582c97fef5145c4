// Copyright The Tripod Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"bytes"
	"fmt"
	"os"
	"regexp"
	"slices"
	"strings"

	"sigs.k8s.io/yaml"
)

// lintersFile configures golangci-lint.
const lintersFile = ".golangci.yml"

// excused are the linters that a comment excuses a line from.
var excused = regexp.MustCompile(`//nolint:([a-z0-9,]+)`)

// checkExcuses finds comments that excuse a line from a linter that does not run. The linter nolintlint finds only excuses from linters
// that run.
func checkExcuses() (problems []string, err error) {
	text, err := os.ReadFile(lintersFile)
	if err != nil {
		return nil, err
	}
	enabled, err := lintersOf(text)
	if err != nil {
		return nil, err
	}
	files, err := lines("git", "ls-files", "--cached", "--others", "--exclude-standard", "*.go")
	if err != nil {
		return nil, err
	}
	for _, file := range files {
		source, err := os.ReadFile(file)
		if os.IsNotExist(err) { // it is deleted, and not yet committed
			continue
		}
		if err != nil {
			return nil, err
		}
		problems = append(problems, findExcuses(file, commentsOf(source), enabled)...)
	}
	return problems, nil
}

// lintersOf returns the linters that a configuration enables.
func lintersOf(config []byte) ([]string, error) {
	var c struct {
		Linters struct {
			Default string   `json:"default"`
			Enable  []string `json:"enable"`
		} `json:"linters"`
	}
	if err := yaml.Unmarshal(config, &c); err != nil {
		return nil, fmt.Errorf("%s: %w", lintersFile, err)
	}
	if c.Linters.Default != "none" || len(c.Linters.Enable) == 0 {
		return nil, fmt.Errorf("%s: linters.default must be none, and linters.enable list the linters", lintersFile)
	}
	return c.Linters.Enable, nil
}

func findExcuses(file string, comments []byte, enabled []string) (problems []string) {
	number := 0
	for line := range bytes.Lines(comments) {
		number++
		for _, found := range excused.FindAllSubmatch(line, -1) {
			for name := range strings.SplitSeq(string(found[1]), ",") {
				if !slices.Contains(enabled, name) {
					problems = append(problems, fmt.Sprintf("%s:%d: nolint:%s: %s does not enable this linter: remove the excuse",
						file, number, name, lintersFile))
				}
			}
		}
	}
	return problems
}
