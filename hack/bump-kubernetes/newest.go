// Copyright The Tripod Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"fmt"
	"slices"
	"strings"

	"golang.org/x/mod/semver"
)

// kinds are what -newest takes.
var kinds = []string{"patch", "minor", "pre-release"}

// newestOf asks the module proxy for the newest version of a kind, beside the one that go.mod requires.
func newestOf(kind string) (string, error) {
	if !slices.Contains(kinds, kind) {
		return "", fmt.Errorf("-newest: %q is none of %s", kind, strings.Join(kinds, ", "))
	}
	ours, err := readRequirements("go.mod")
	if err != nil {
		return "", err
	}
	listed, err := output("go", "list", "-m", "-versions", "-f", `{{join .Versions " "}}`, kubernetes)
	if err != nil {
		return "", err
	}
	return choose(kind, ours[kubernetes], strings.Fields(listed)), nil
}

// choose returns the newest version of a kind: a patch of the minor version that is in use, any minor version, or also one that is not
// released yet. If there is none, it returns the version in use.
func choose(kind, inUse string, versions []string) string {
	found := inUse
	for _, version := range versions {
		if !release.MatchString(version) || semver.Compare(version, found) <= 0 {
			continue
		}
		isReleased, isPatch := semver.Prerelease(version) == "", semver.MajorMinor(version) == semver.MajorMinor(inUse)
		if kind == "pre-release" || isReleased && (kind == "minor" || isPatch) {
			found = version
		}
	}
	return found
}
