// Copyright The Tripod Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
)

// conditionsPage explains the reasons of conditions of search.
const conditionsPage = "docs/search-reference.md"

var (
	// The packages of search whose conditions users read. In them, a quoted name is a reason.
	conditionsOf = []string{"services/search/pediaclusters", "services/search/policies"}
	reason       = regexp.MustCompile(`"([A-Z][a-z]+(?:[A-Z][A-Za-z]*)*)"`)
	// Kinds of objects.
	noReason = []string{"PediaCluster"}
)

// checkReasons finds reasons of conditions that no page explains, and packages of conditionsOf that have no reasons (any more).
func checkReasons(texts map[string]string) (problems []string, err error) {
	for _, folder := range conditionsOf {
		names, err := reasonsOf(folder)
		if err != nil {
			return nil, err
		}
		if len(names) == 0 {
			problems = append(problems, fmt.Sprintf("found no reasons of conditions in %s: name their package in hack/check-docs", folder))
		}
		for _, name := range names {
			if !strings.Contains(texts[conditionsPage], "`"+name+"`") {
				problems = append(problems, fmt.Sprintf("%s: no row for the reason %s of %s", conditionsPage, name, folder))
			}
		}
	}
	return problems, nil
}

// reasonsOf returns the reasons in the Go files of a folder, without those of tests.
func reasonsOf(folder string) (names []string, err error) {
	files, err := filepath.Glob(filepath.Join(folder, "*.go"))
	if err != nil {
		return nil, err
	}
	for _, file := range files {
		if strings.HasSuffix(file, "_test.go") {
			continue
		}
		source, err := os.ReadFile(file)
		if err != nil {
			return nil, err
		}
		for _, name := range reasonsIn(string(source)) {
			if !slices.Contains(names, name) {
				names = append(names, name)
			}
		}
	}
	return names, nil
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
