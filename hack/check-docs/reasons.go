// Copyright The Tripod Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"fmt"
	"os"
	"regexp"
	"slices"
	"strings"
)

// conditionsPage explains the reasons of conditions of search.
const conditionsPage = "docs/search-reference.md"

var (
	// The folders of search whose conditions users read. There, a name as a text of its own is a reason.
	conditionsOf = regexp.MustCompile(`^services/search/.*\b(?:policies|members)/[a-z]+\.go$`)
	reason       = regexp.MustCompile(`"([A-Z][a-z]+(?:[A-Z][A-Za-z]*)*)"`)
	// Kinds of objects.
	noReason = []string{"PediaCluster"}
)

// checkReasons finds reasons of conditions that no page explains.
func checkReasons(texts map[string]string) (problems []string, err error) {
	files, err := lines("git", "ls-files", "--cached", "--others", "--exclude-standard", "services/search/*.go")
	if err != nil {
		return nil, err
	}
	found := 0
	for _, file := range files {
		if !conditionsOf.MatchString(file) || strings.HasSuffix(file, "_test.go") || !exists(file) {
			continue
		}
		source, err := os.ReadFile(file)
		if err != nil {
			return nil, err
		}
		for _, name := range reasonsIn(string(source)) {
			if found++; !strings.Contains(texts[conditionsPage], "`"+name+"`") {
				problems = append(problems, fmt.Sprintf("%s: no row for the reason %s of %s", conditionsPage, name, file))
			}
		}
	}
	if found == 0 {
		problems = append(problems, "found no reasons of conditions in services/search: say in hack/check-docs where they are")
	}
	return problems, nil
}

// reasonsIn returns the reasons in the source of a file.
func reasonsIn(source string) (names []string) {
	for _, match := range reason.FindAllStringSubmatch(source, -1) {
		if !slices.Contains(names, match[1]) && !slices.Contains(noReason, match[1]) {
			names = append(names, match[1])
		}
	}
	return names
}
