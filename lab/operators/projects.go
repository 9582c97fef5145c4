// Copyright The Tripod Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	_ "embed"
	"fmt"
	"path"
	"regexp"

	"sigs.k8s.io/yaml"

	"github.com/tripod-k8s/tripod/services/shared/partitions"
)

//go:embed projects.yaml
var projectsFile []byte

// project is a line of projects.yaml, which explains its fields.
type project struct {
	Name        string            `json:"name"`
	Repository  string            `json:"repository"`
	Version     string            `json:"version"`
	Commit      string            `json:"commit"`
	Module      string            `json:"module"`
	Packages    []string          `json:"packages"`
	Prepare     []string          `json:"prepare"`
	Environment map[string]string `json:"environment"`
	Known       []known           `json:"known"`
	Partitions  []string          `json:"partitions"`
}

// known is why some tests fail on both sides.
type known struct {
	Tests  string `json:"tests"`
	Reason string `json:"reason"`
}

// folder is the name of the folders of the project.
func (p project) folder() string { return path.Base(p.Repository) }

// key is the name of the sources in kept results.
func (p project) key() string { return p.folder() + "@" + p.Commit }

// reasonFor returns why a test fails, or "" if that is unknown.
func (p project) reasonFor(test string) string {
	for _, k := range p.Known {
		if matched, err := regexp.MatchString(k.Tests, test); err == nil && matched {
			return k.Reason
		}
	}
	return ""
}

var commitPattern = regexp.MustCompile(`^[0-9a-f]{40}$`)

func readProjects(data []byte) ([]project, error) {
	var projects []project
	if err := yaml.UnmarshalStrict(data, &projects); err != nil {
		return nil, fmt.Errorf("projects.yaml: %w", err)
	}
	for _, p := range projects {
		if p.Name == "" || p.Repository == "" || p.Version == "" || len(p.Packages) == 0 {
			return nil, fmt.Errorf("projects.yaml: %q needs name, repository, version and packages", p.Name)
		}
		if !commitPattern.MatchString(p.Commit) {
			return nil, fmt.Errorf("projects.yaml: %s: commit %q is not a whole SHA-1", p.Name, p.Commit)
		}
		if _, err := partitions.Parse(p.Partitions); err != nil {
			return nil, fmt.Errorf("projects.yaml: %s: partitions: %w", p.Name, err)
		}
		for _, k := range p.Known {
			if _, err := regexp.Compile(k.Tests); err != nil || k.Reason == "" {
				return nil, fmt.Errorf("projects.yaml: %s: known tests need a pattern and a reason: %w", p.Name, err)
			}
		}
	}
	return projects, nil
}
