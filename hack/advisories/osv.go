// Copyright The Tripod Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"fmt"
	"slices"
	"strings"

	"golang.org/x/mod/semver"
)

// advisory is the part of an entry in OSV format (https://ossf.github.io/osv-schema) that the check needs.
type advisory struct {
	SchemaVersion string     `json:"schema_version"`
	ID            string     `json:"id"`
	Modified      string     `json:"modified"`
	Withdrawn     string     `json:"withdrawn,omitempty"`
	Aliases       []string   `json:"aliases,omitempty"`
	Summary       string     `json:"summary"`
	Affected      []affected `json:"affected"`
}

type affected struct {
	Package struct {
		Name      string `json:"name"`
		Ecosystem string `json:"ecosystem"`
	} `json:"package"`
	Ranges    []versions `json:"ranges"`
	Ecosystem struct {
		// Imports are the packages with the vulnerability. Without any, all packages of the module may have it.
		Imports []struct {
			Path string `json:"path"`
		} `json:"imports,omitempty"`
	} `json:"ecosystem_specific"`
}

// versions is a range of versions: each is affected from an introduction on, until a fix.
type versions struct {
	Type   string `json:"type"`
	Events []struct {
		Introduced string `json:"introduced,omitempty"`
		Fixed      string `json:"fixed,omitempty"`
	} `json:"events"`
}

// repositories are modules under whose name advisories are published although the code is in other modules of the repository, which have
// the same versions.
var repositories = map[string]string{"go.etcd.io/etcd/v3": "go.etcd.io/etcd/"}

// isAbout returns whether an affected module is this one.
func (a affected) isAbout(module string) bool {
	prefix, ok := repositories[a.Package.Name]
	return a.Package.Name == module || ok && strings.HasPrefix(module, prefix) && strings.HasSuffix(module, "/v3")
}

func (a advisory) concerns(required []string) bool {
	return slices.ContainsFunc(a.Affected, func(one affected) bool { return slices.ContainsFunc(required, one.isAbout) })
}

// findings returns an error for each linked module that is older than a fix.
func (a advisory) findings(linked modules) (errs []error) {
	for _, one := range a.Affected {
		for path, m := range linked {
			if !one.isAbout(path) || !one.isLinked(m) {
				continue
			}
			if fixed := one.fix(m.version); fixed != "" {
				errs = append(errs, fmt.Errorf("%s %s has %s (%s): require %s or later", path, m.version, a.ID, a.Summary, fixed))
			}
		}
	}
	return errs
}

func (a affected) isLinked(m module) bool {
	if len(a.Ecosystem.Imports) == 0 {
		return true
	}
	for _, vulnerable := range a.Ecosystem.Imports {
		if m.packages[vulnerable.Path] {
			return true
		}
	}
	return false
}

// fix returns the first version with the fix if the given version is affected. It returns an empty string if it is not, or if no version
// has a fix.
func (a affected) fix(version string) string {
	for _, r := range a.Ranges {
		affected := false
		for _, event := range r.Events {
			switch {
			case event.Introduced == "0":
				affected = true
			case event.Introduced != "":
				affected = semver.Compare(version, "v"+event.Introduced) >= 0
			case event.Fixed != "" && affected && semver.Compare(version, "v"+event.Fixed) < 0:
				return "v" + event.Fixed
			case event.Fixed != "":
				affected = false
			}
		}
	}
	return ""
}

// oldest returns the lower of two versions.
func oldest(a, b string) string {
	if semver.Compare(a, b) <= 0 {
		return a
	}
	return b
}
