// Copyright The Tripod Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"fmt"
	"os"
	"path"
	"regexp"
	"strings"
)

var (
	comment = regexp.MustCompile(`(?m)^//(.*)$`)
	// A file, such as server/config.go, or a folder of the repository, such as base/hop/feed.
	sourceFile = regexp.MustCompile(`[\w./-]+\.(?:go|proto|md|sh)\b`)
	folder     = regexp.MustCompile(`\b(?:` + folders + `)(?:/[\w-]+)+`)
)

// folders are those of the repository.
const folders = "cmd|console|local|admin|services|base|lab|proto|apiservice|test|e2e|hack|tools|docs|deploy|examples"

// tourOfService is the tour of a service. Each has the section start, because all services start alike.
var tourOfService = regexp.MustCompile(`^services/[^/]+/doc\.go$`)

const start = "# From flags to a server"

// checkTours finds the files and folders that the package comments in doc.go files name and that do not exist.
func checkTours() (problems []string, err error) {
	tours, err := lines("git", "ls-files", "--cached", "--others", "--exclude-standard", "doc.go", "*/doc.go")
	if err != nil {
		return nil, err
	}
	for _, tour := range tours {
		source, err := os.ReadFile(tour)
		if err != nil {
			return nil, err
		}
		if tourOfService.MatchString(tour) && !strings.Contains(string(source), "\n// "+start+"\n") {
			problems = append(problems, tour+": no section "+start)
		}
		for _, name := range missing(path.Dir(tour), string(source)) {
			problems = append(problems, fmt.Sprintf("%s: no such file or folder: %s", tour, name))
		}
	}
	return problems, nil
}

// missing returns the names in the comments of a file that exist neither in its folder nor in the repository. A file without a folder may
// also be in the folder of the file that was named before it.
func missing(dir, source string) (names []string) {
	var lines []string
	for _, found := range comment.FindAllStringSubmatch(source, -1) {
		lines = append(lines, found[1])
	}
	text, before := strings.Join(lines, "\n"), dir
	for _, name := range sourceFile.FindAllString(text, -1) {
		switch {
		case exists(path.Join(dir, name)):
			before = path.Join(dir, path.Dir(name))
		case exists(name):
			before = path.Dir(name)
		case !exists(path.Join(before, name)):
			names = append(names, name)
		}
	}
	for _, name := range folder.FindAllString(sourceFile.ReplaceAllString(text, ""), -1) {
		if !exists(path.Join(dir, name)) && !exists(name) {
			names = append(names, name)
		}
	}
	return names
}

func exists(name string) bool {
	_, err := os.Stat(name)
	return err == nil
}
