// Copyright The Tripod Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"fmt"
	"os"
	"slices"
	"strings"
)

const listHeader = `# The specs of Kubernetes' suite that pass on a stock kube-apiserver where no container really runs.
# Generated: make conformance-refresh
`

// readList returns the specs in a file, one a line.
func readList(path string) ([]string, error) {
	data, err := os.ReadFile(path)
	if err != nil {
		return nil, fmt.Errorf("read the list of specs: %w", err)
	}
	var specs []string
	for line := range strings.Lines(string(data)) {
		if line = strings.TrimSpace(line); line != "" && !strings.HasPrefix(line, "#") {
			specs = append(specs, line)
		}
	}
	return specs, nil
}

func writeList(path string, specs []string) error {
	slices.Sort(specs)
	text := listHeader + strings.Join(slices.Compact(specs), "\n") + "\n"
	if err := os.WriteFile(path, []byte(text), 0o644); err != nil {
		return fmt.Errorf("write the list of specs: %w", err)
	}
	return nil
}

// replaced returns the list in which the specs of a run are replaced by those that passed. Specs that the suite has no longer are left out:
// Kubernetes renames some in each version.
func replaced(list, suite, ran, passed []string) []string {
	result := slices.DeleteFunc(slices.Clone(list), func(spec string) bool { return slices.Contains(ran, spec) || !slices.Contains(suite, spec) })
	return append(result, passed...)
}
