// Copyright The Tripod Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
)

// Pages for developers: all of their commands are checked, and a program that nothing here knows is a problem.
var handbooks = []string{"CONTRIBUTING.md", "test/README.md"}

var (
	fenced   = regexp.MustCompile("(?ms)^```[a-z]*\n(.*?)^```")
	indented = regexp.MustCompile(`(?m)^ {4}(\S.*)$`)
	quoted   = regexp.MustCompile("`([^`\n]+)`")
	inline   = regexp.MustCompile(`^(?:[A-Z_]+=\S+ )*(?:make|go) .`)
	target   = regexp.MustCompile(`^(?:[A-Z_]+=\S+ )*make ((?:[a-z][a-z0-9-]*(?: |$))+)`)
	declared = regexp.MustCompile(`(?m)^([a-z][a-z0-9 -]*):(?:[^=]|$)`)
	packages = regexp.MustCompile(`\./[a-z][\w./-]*`)
	matching = regexp.MustCompile(`(?:-run|-bench) '?([^' ]+)'?`)
)

// checkCommands finds the commands on pages that cannot work.
func checkCommands(pages []string) (problems []string, err error) {
	targets, err := makeTargets()
	if err != nil {
		return nil, err
	}
	var named []string
	for _, page := range pages {
		content, err := os.ReadFile(page)
		if err != nil {
			return nil, err
		}
		for _, line := range commandsOf(string(content)) {
			problem := missingTarget(line, targets)
			if problem == "" && slices.Contains(handbooks, page) {
				problem = wrongCommand(line)
				named = append(named, packages.FindAllString(line, -1)...)
			}
			if problem != "" {
				problems = append(problems, fmt.Sprintf("%s: `%s`: %s", page, line, problem))
			}
		}
	}
	// One call for all: go takes a second to read its modules.
	if _, err := lines("go", append([]string{"list"}, named...)...); err != nil {
		problems = append(problems, fmt.Sprintf("packages in %s: %v", strings.Join(handbooks, " or "), err))
	}
	return problems, nil
}

// commandsOf returns the commands in code blocks, and those of make and go between backticks.
func commandsOf(text string) (commands []string) {
	for _, found := range fenced.FindAllStringSubmatch(text, -1) {
		for line := range strings.Lines(found[1]) {
			commands = append(commands, strings.TrimPrefix(strings.TrimSpace(line), "$ "))
		}
	}
	text = fenced.ReplaceAllString(text, "")
	for _, found := range indented.FindAllStringSubmatch(text, -1) {
		commands = append(commands, found[1])
	}
	for _, found := range quoted.FindAllStringSubmatch(text, -1) {
		if inline.MatchString(found[1]) {
			commands = append(commands, found[1])
		}
	}
	for i, command := range commands {
		before, _, _ := strings.Cut(command, "   #") // a comment
		commands[i] = strings.TrimSpace(before)
	}
	return slices.DeleteFunc(commands, func(command string) bool { return command == "" || strings.HasPrefix(command, "#") })
}

func makeTargets() (targets []string, err error) {
	files, err := filepath.Glob("make/*.mk")
	if err != nil {
		return nil, err
	}
	// The tutorials use the Makefile of a new API service, too.
	for _, file := range append(files, "Makefile", "admin/scaffold/templates/Makefile.tmpl") {
		text, err := os.ReadFile(file)
		if err != nil {
			return nil, err
		}
		for _, found := range declared.FindAllStringSubmatch(string(text), -1) {
			targets = append(targets, strings.Fields(found[1])...)
		}
	}
	return targets, nil
}

// missingTarget returns what is wrong with the targets of a command of make.
func missingTarget(command string, targets []string) string {
	found := target.FindStringSubmatch(command)
	if found == nil {
		return ""
	}
	for name := range strings.FieldsSeq(found[1]) {
		if !slices.Contains(targets, name) {
			return "make has no target " + name
		}
	}
	return ""
}

// wrongCommand returns what is wrong with a command of a handbook, or "".
func wrongCommand(command string) string {
	if err := exec.Command("bash", "-n", "-c", command).Run(); err != nil {
		return "the shell cannot parse it"
	}
	for part := range strings.SplitSeq(command, "; ") {
		for part := range strings.SplitSeq(part, " && ") {
			part, _, _ = strings.Cut(part, " | ")
			if problem := wrongPart(part); problem != "" {
				return problem
			}
		}
	}
	return ""
}

func wrongPart(command string) string {
	words := strings.Fields(command)
	for len(words) > 0 && strings.Contains(words[0], "=") && !strings.HasPrefix(words[0], "-") {
		words = words[1:] // a variable
	}
	if len(words) == 0 {
		return ""
	}
	switch program := words[0]; program {
	case "make", "export", "git", "sysctl", "apt-get", "grep":
		return ""
	case "go":
		return wrongGo(command, words[1:])
	default:
		if exists(program) {
			return ""
		}
		return "check-docs does not know how to check " + program
	}
}

// wrongGo checks the packages that a command of go names, and that -run and -bench select something in them.
func wrongGo(command string, args []string) string {
	if len(args) == 0 || args[0] == "tool" { // of what other commands have made
		return ""
	}
	var dirs []string
	for _, pattern := range packages.FindAllString(command, -1) {
		below, err := foldersOf(pattern)
		if err != nil {
			return "no such package: " + pattern
		}
		dirs = append(dirs, below...)
	}
	if args[0] != "test" || len(dirs) == 0 {
		return ""
	}
	for _, found := range matching.FindAllStringSubmatch(command, -1) {
		if pattern := found[1]; pattern != "^$" && !selects(pattern, dirs) {
			return "no test or benchmark there matches " + pattern
		}
	}
	return ""
}

// foldersOf returns the folder of a package, or all below it for a pattern that ends in "...".
func foldersOf(pattern string) (folders []string, err error) {
	top, all := strings.CutSuffix(pattern, "/...")
	err = filepath.WalkDir(top, func(path string, entry fs.DirEntry, err error) error {
		if err != nil || !entry.IsDir() {
			return err
		}
		folders = append(folders, path)
		if !all {
			return filepath.SkipAll
		}
		return nil
	})
	return folders, err
}

// selects reports whether a pattern of -run or -bench matches a test, benchmark or example in folders.
func selects(pattern string, dirs []string) bool {
	pattern, _, _ = strings.Cut(pattern, "/") // parts of tests are not declared
	matches, err := regexp.Compile(`(?m)^func (?:Test|Benchmark|Example|Fuzz)\w*(?:` + pattern + `)|^func (?:` + pattern + `)`)
	if err != nil {
		return false
	}
	for _, dir := range dirs {
		files, err := filepath.Glob(path.Join(dir, "*_test.go"))
		if err != nil {
			return false
		}
		for _, file := range files {
			if text, err := os.ReadFile(file); err == nil && matches.Match(text) {
				return true
			}
		}
	}
	return false
}
