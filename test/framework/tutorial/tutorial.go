// Copyright The Tripod Authors.
// SPDX-License-Identifier: Apache-2.0

// Package tutorial follows a page of the docs: it runs the commands of the page, makes the changes that the page shows, and compares what the
// commands print with what the page shows.
//
// A page has fenced blocks. A block of sh is a script. A block of text after it shows what the script prints. A block of diff is a change that the
// reader makes by hand. A comment before a block sets what a test does with it:
//
//	<!-- test: in the background -->   the script goes on while the reader goes on; a later such block stops it first, as Ctrl-C does
//	<!-- test: beside it -->           likewise, and what goes on already goes on, too
//	<!-- test: fails -->               the script ends with an error; all others must not
//	<!-- test: not run, REASON -->     the test does not run the script
package tutorial

import (
	"fmt"
	"os"
	"regexp"
	"strings"
)

// Block is a fenced block of a page.
type Block struct {
	// Line is where it begins, and Heading the heading above it.
	Line    int
	Heading string
	// Language is sh, text, diff or another one.
	Language, Content string
	Mark              Mark
}

// Mark is what a comment sets for a block.
type Mark string

// The marks of blocks.
const (
	Background Mark = "in the background"
	Beside     Mark = "beside it"
	Fails      Mark = "fails"
	NotRun     Mark = "not run"
)

var (
	comment = regexp.MustCompile(`^<!-- test: (in the background|beside it|fails|not run)(, .+)? -->$`)
	title   = regexp.MustCompile(`^## (.+)$`)
	opening = regexp.MustCompile("^```([a-z]*)$")
)

// Read returns the blocks of a page under the headings from one to another, both included.
func Read(page, from, to string) ([]Block, error) {
	text, err := os.ReadFile(page)
	if err != nil {
		return nil, err
	}
	blocks, err := parse(string(text))
	if err != nil {
		return nil, fmt.Errorf("%s: %w", page, err)
	}
	first, end := -1, -1
	for i, block := range blocks {
		if first < 0 && block.Heading == from {
			first = i
		}
		if block.Heading == to {
			end = i + 1
		}
	}
	if first < 0 || end <= first {
		return nil, fmt.Errorf("%s has no blocks from %q to %q", page, from, to)
	}
	return blocks[first:end], nil
}

func parse(text string) (blocks []Block, err error) {
	var heading string
	var mark Mark
	var current *Block
	for i, line := range strings.Split(text, "\n") {
		switch {
		case current != nil && line == "```":
			blocks, current, mark = append(blocks, *current), nil, ""
		case current != nil:
			current.Content += line + "\n"
		case opening.MatchString(line):
			current = &Block{Line: i + 1, Heading: heading, Language: opening.FindStringSubmatch(line)[1], Mark: mark}
		case title.MatchString(line):
			heading = title.FindStringSubmatch(line)[1]
		case comment.MatchString(line):
			found := comment.FindStringSubmatch(line)
			if mark = Mark(found[1]); mark == NotRun && found[2] == "" {
				return nil, fmt.Errorf("line %d: there is no reason why the test does not run the block", i+1)
			}
		case strings.HasPrefix(line, "<!-- test:"):
			return nil, fmt.Errorf("line %d: unknown mark %s", i+1, line)
		}
	}
	if current != nil {
		return nil, fmt.Errorf("line %d: the block has no end", current.Line)
	}
	return blocks, nil
}

// volatile are parts of output that differ each time.
var volatile = regexp.MustCompile(`\b\d+(\.\d+)?(ms|s|m|h|d)(\d+s)?\b|\b\d+(\.\d+)? MiB\b|\b\d+(\.\d+)?%|127\.0\.0\.1:\d+|\b10(\.\d+){3}\b|\bpid \d+\b|\(cached\)|` +
	`\b\d+\.\d+\b|\b\d{3,}\b|` +
	`-[bcdf-hj-np-tv-xz2-9]{8,10}-[bcdf-hj-np-tv-xz2-9]{5}\b`) // what a Deployment adds to the names of its pods

// pattern returns what matches output as a page shows it. Times, sizes, ports, fractions and long numbers may be others, and so may the
// width of columns and empty lines. A line of three dots stands for any lines, or none.
func pattern(shown string) *regexp.Regexp {
	var all strings.Builder
	all.WriteString(`^`)
	for line := range strings.Lines(strings.TrimSpace(shown)) {
		switch strings.TrimSpace(line) {
		case "...":
			all.WriteString(`(?:.*\n)*?`)
			continue
		case "":
			continue
		}
		var words []string
		for _, word := range strings.Fields(volatile.ReplaceAllString(line, "\x00")) {
			words = append(words, strings.ReplaceAll(regexp.QuoteMeta(word), "\x00", `\S+(?: MiB)?`))
		}
		all.WriteString(strings.Join(words, `[ \t]+`) + `\n`)
	}
	all.WriteString(`$`)
	return regexp.MustCompile(all.String())
}

// normal is output without empty lines, and without space at the ends of lines.
func normal(output string) string {
	var lines []string
	for line := range strings.Lines(output) {
		if line = strings.TrimSpace(line); line != "" {
			lines = append(lines, line+"\n")
		}
	}
	return strings.Join(lines, "")
}
