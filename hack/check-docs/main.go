// Copyright The Tripod Authors.
// SPDX-License-Identifier: Apache-2.0

// Command check-docs checks the pages of the repository:
//
//   - Every relative link of a Markdown page leads to a file, and to a heading of it if the link has an anchor.
//   - docs/architecture.md has one row for each package and each module of tools.
//   - Each `make TARGET` on a page has a target. In CONTRIBUTING.md and test/README.md, each command has the packages, tests, benchmarks
//     and files that it names.
//   - The files and folders that a doc.go names exist. That of a service has a section about how the service starts.
//   - docs/search-reference.md has each reason of the conditions of search.
//   - Each nolint names a linter that .golangci.yml enables.
//   - No page, script or comment has a word for an actor without a name, or verbs of people for programs (words.go).
package main

import (
	"fmt"
	"os"
	"os/exec"
	"path"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
)

const (
	module = "github.com/tripod-k8s/tripod/"
	mapOf  = "docs/architecture.md"
)

var (
	fence   = regexp.MustCompile("(?ms)^```.*?^```")
	link    = regexp.MustCompile(`\]\(([^)\s]+)\)`)
	heading = regexp.MustCompile(`(?m)^#+ (.+)$`)
	// What a heading loses when it becomes an anchor.
	punctuation = regexp.MustCompile(`[^\p{L}\p{N} _-]`)
	row         = regexp.MustCompile("(?m)^\\| `([^`]+)` \\|")
)

func main() {
	problems, err := check()
	if err != nil {
		problems = append(problems, err.Error())
	}
	for _, problem := range problems {
		fmt.Fprintln(os.Stderr, problem)
	}
	if len(problems) > 0 {
		os.Exit(1)
	}
}

func check() (problems []string, err error) {
	pages, err := lines("git", "ls-files", "--cached", "--others", "--exclude-standard", "*.md")
	if err != nil {
		return nil, err
	}
	texts := map[string]string{}
	for _, page := range pages {
		content, err := os.ReadFile(page)
		if err != nil {
			return nil, err
		}
		texts[page] = fence.ReplaceAllString(string(content), "")
	}
	for _, page := range pages {
		for _, found := range link.FindAllStringSubmatch(texts[page], -1) {
			if problem := follow(page, found[1], texts); problem != "" {
				problems = append(problems, fmt.Sprintf("%s: link to %s: %s", page, found[1], problem))
			}
		}
	}
	_, packages, _ := strings.Cut(texts[mapOf], "\n## Packages\n")
	unmapped, err := checkMap(packages)
	if err != nil {
		return nil, err
	}
	wrong, err := checkCommands(pages)
	if err != nil {
		return nil, err
	}
	lost, err := checkTours()
	if err != nil {
		return nil, err
	}
	unexplained, err := checkReasons(texts)
	if err != nil {
		return nil, err
	}
	stale, err := checkExcuses()
	if err != nil {
		return nil, err
	}
	nameless, err := checkWords()
	return slices.Concat(problems, unmapped, wrong, lost, unexplained, stale, nameless), err
}

// follow returns the error of a link of a page, or "".
func follow(page, link string, texts map[string]string) string {
	if strings.Contains(link, ":") { // https://...
		return ""
	}
	file, anchor, _ := strings.Cut(link, "#")
	target := page
	if file != "" {
		target = path.Join(path.Dir(page), file)
	}
	if _, err := os.Stat(target); err != nil {
		return "no such file"
	}
	if anchor != "" && !slices.Contains(anchors(texts[target]), anchor) {
		return "no such heading"
	}
	return ""
}

// anchors returns the anchors of a page's headings, as GitHub makes them.
func anchors(text string) []string {
	var all []string
	for _, found := range heading.FindAllStringSubmatch(text, -1) {
		plain := punctuation.ReplaceAllString(strings.ToLower(found[1]), "")
		all = append(all, strings.ReplaceAll(plain, " ", "-"))
	}
	return all
}

// checkMap compares the rows of the map with the packages and tools that exist.
func checkMap(text string) (problems []string, err error) {
	exist, err := lines("go", "list", "./...", module+"apiservice/...", module+"base/...", module+"lab/...", module+"proto/...")
	if err != nil {
		return nil, err
	}
	for i := range exist {
		exist[i] = strings.TrimPrefix(exist[i], module)
	}
	for _, modules := range []string{"tools/go.mod", "tools/*/go.mod", "examples/*/go.mod"} {
		files, err := filepath.Glob(modules)
		if err != nil {
			return nil, err
		}
		for _, file := range files {
			exist = append(exist, path.Dir(file))
		}
	}
	var rows []string
	for _, found := range row.FindAllStringSubmatch(text, -1) {
		rows = append(rows, found[1])
		if !slices.Contains(exist, found[1]) {
			problems = append(problems, fmt.Sprintf("%s: no package is in %s: remove its row", mapOf, found[1]))
		}
	}
	for _, name := range exist {
		if !slices.Contains(rows, name) {
			problems = append(problems, fmt.Sprintf("%s: add a row for %s, which says in a few words what it is for", mapOf, name))
		}
	}
	return problems, nil
}

func lines(name string, args ...string) ([]string, error) {
	command := exec.Command(name, args...)
	command.Stderr = os.Stderr
	out, err := command.Output()
	if err != nil {
		return nil, fmt.Errorf("%s: %w", command, err)
	}
	return strings.Fields(string(out)), nil
}
