// Copyright The Tripod Authors.
// SPDX-License-Identifier: Apache-2.0

// Command skipped-tests lists why tests were skipped, and how many for each reason. It reads the output of `go test -json` from a file,
// which its argument or, as gotestsum has it, GOTESTSUM_JSONFILE names.
package main

import (
	"bufio"
	"cmp"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"regexp"
	"slices"
	"strings"
)

func main() {
	path := os.Getenv("GOTESTSUM_JSONFILE")
	if len(os.Args) > 1 {
		path = os.Args[1]
	}
	if err := run(path, os.Stdout); err != nil {
		fmt.Fprintln(os.Stderr, "skipped-tests:", err)
		os.Exit(1)
	}
}

func run(path string, out io.Writer) error {
	file, err := os.Open(path)
	if err != nil {
		return err
	}
	defer file.Close() //nolint:errcheck // it was only read
	reasons, err := read(file)
	if err != nil {
		return fmt.Errorf("%s: %w", path, err)
	}
	for _, r := range reasons {
		plural := "tests"
		if len(r.tests) == 1 {
			plural = "test"
		}
		fmt.Fprintf(out, "skipped %d %s, such as %s: %s\n", len(r.tests), plural, r.tests[0], r.text)
	}
	return nil
}

// reason is why tests were skipped.
type reason struct {
	text  string
	tests []string
}

// event is a line of `go test -json`.
type event struct{ Action, Package, Test, Output string }

// A test says why by t.Skip, whose output begins with its place.
var place = regexp.MustCompile(`^\s+\S+\.go:\d+: `)

// read returns the reasons, those of most tests first.
func read(events io.Reader) ([]*reason, error) {
	byText, said := map[string]*reason{}, map[string]string{}
	scanner := bufio.NewScanner(events)
	scanner.Buffer(nil, 64<<20)
	for scanner.Scan() {
		var e event
		if err := json.Unmarshal(scanner.Bytes(), &e); err != nil {
			return nil, err
		}
		name := e.Package + " " + e.Test
		switch {
		case e.Test == "":
		case e.Action == "output" && place.MatchString(e.Output):
			said[name] = strings.TrimSpace(place.ReplaceAllString(e.Output, ""))
		case e.Action == "skip":
			text := cmp.Or(said[name], "no reason")
			if byText[text] == nil {
				byText[text] = &reason{text: text}
			}
			byText[text].tests = append(byText[text].tests, e.Test)
		}
		if e.Action == "pass" || e.Action == "fail" || e.Action == "skip" {
			delete(said, name)
		}
	}
	var reasons []*reason
	for _, r := range byText {
		slices.Sort(r.tests)
		reasons = append(reasons, r)
	}
	slices.SortFunc(reasons, func(a, b *reason) int {
		return cmp.Or(cmp.Compare(len(b.tests), len(a.tests)), cmp.Compare(a.text, b.text))
	})
	return reasons, scanner.Err()
}
