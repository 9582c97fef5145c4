// Copyright The Tripod Authors.
// SPDX-License-Identifier: Apache-2.0

// Command skipped-tests lists why tests were skipped, and how many for each reason, in at most a dozen lines. It fails if a package failed
// outside of its tests, as when its TestMain cannot start a cluster: gotestsum runs such a package once more, without any test, and takes
// that for a success. The command reads the output of `go test -json` from a file, which its argument or, as gotestsum has it,
// GOTESTSUM_JSONFILE names.
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

// shown is the number of reasons that fit on a screen beside the summary of the tests.
const shown = 10

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
	reasons, untested, err := read(file)
	if err != nil {
		return fmt.Errorf("%s: %w", path, err)
	}
	for i, r := range reasons {
		if i == shown {
			fmt.Fprintf(out, "%d more reasons are in %s\n", len(reasons)-shown, path)
			break
		}
		plural := "tests"
		if len(r.tests) == 1 {
			plural = "test"
		}
		fmt.Fprintf(out, "skipped %d %s, such as %s: %s\n", len(r.tests), plural, r.tests[0], r.text)
	}
	if len(untested) > 0 {
		return fmt.Errorf("failed outside of their tests, such as in TestMain, so that tests were not run: %s", strings.Join(untested, ", "))
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

// read returns the reasons, those of most tests first, and the packages that failed without a test that failed.
func read(events io.Reader) (reasons []*reason, untested []string, err error) {
	byText, outputs := map[string]*reason{}, map[string]string{}
	failed := map[string]bool{} // packages with a test that failed in this run
	scanner := bufio.NewScanner(events)
	scanner.Buffer(nil, 64<<20)
	for scanner.Scan() {
		var e event
		if err := json.Unmarshal(scanner.Bytes(), &e); err != nil {
			return nil, nil, err
		}
		name := e.Package + " " + e.Test
		switch {
		case e.Action == "start":
			delete(failed, e.Package)
		case e.Action == "fail" && e.Test != "":
			failed[e.Package] = true
		case e.Action == "fail" && !failed[e.Package]:
			untested = append(untested, e.Package)
		case e.Test == "":
		case e.Action == "output" && place.MatchString(e.Output):
			outputs[name] = strings.TrimSpace(place.ReplaceAllString(e.Output, ""))
		case e.Action == "skip":
			text := cmp.Or(outputs[name], "no reason")
			if byText[text] == nil {
				byText[text] = &reason{text: text}
			}
			byText[text].tests = append(byText[text].tests, e.Test)
		}
		if e.Action == "pass" || e.Action == "fail" || e.Action == "skip" {
			delete(outputs, name)
		}
	}
	for _, r := range byText {
		slices.Sort(r.tests)
		reasons = append(reasons, r)
	}
	slices.SortFunc(reasons, func(a, b *reason) int {
		return cmp.Or(cmp.Compare(len(b.tests), len(a.tests)), cmp.Compare(a.text, b.text))
	})
	return reasons, untested, scanner.Err()
}
