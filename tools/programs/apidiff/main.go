// Copyright The Tripod Authors.
// SPDX-License-Identifier: Apache-2.0

// Command apidiff compares the exported names of the published Go module apiservice with those of the last release. A change that breaks
// the code of users fails, unless apiservice/incompatible.yaml lists it with a reason. Others pass. It type-checks from source, and
// compiles nothing.
package main

import (
	"flag"
	"fmt"
	"io"
	"os"
	"slices"
	"strings"

	"golang.org/x/exp/apidiff"
)

// comparison says what to compare.
type comparison struct {
	// repository is a checkout with its history. Its other paths are relative.
	repository string
	// module is the folder of the published module. The modules of the repository that it requires are in the folders that their paths name.
	module string
	// reference is a file with the last release, and allowed one with the incompatible changes since then.
	reference, allowed string
}

func main() {
	c := comparison{module: "apiservice", reference: "proto/released.ref", allowed: "apiservice/incompatible.yaml"}
	flag.StringVar(&c.repository, "repository", ".", "checkout with its history")
	flag.Parse()
	if err := c.run(os.Stdout); err != nil {
		fmt.Fprintln(os.Stderr, "apidiff:", err)
		os.Exit(1)
	}
}

// run prints the changes, and returns an error if one breaks the promise.
func (c comparison) run(out io.Writer) error {
	exceptions, err := readExceptions(c.repository, c.allowed)
	if err != nil {
		return err
	}
	released, release, err := c.unpack()
	if err != nil {
		return err
	}
	defer remove(released)
	before, err := c.load(released)
	if err != nil {
		return fmt.Errorf("the module %s of %s: %w", c.module, release, err)
	}
	now, err := c.load(c.repository)
	if err != nil {
		return fmt.Errorf("the module %s: %w", c.module, err)
	}
	var added, broken []string
	for _, change := range apidiff.ModuleChanges(before, now).Changes {
		switch message := oneLine(change.Message); {
		case change.Compatible:
			added = append(added, message)
		default:
			broken = append(broken, message)
		}
	}
	slices.Sort(added)
	for _, message := range added {
		fmt.Fprintln(out, "new:", message)
	}
	fmt.Fprintf(out, "%s since %s: %d compatible changes, %d incompatible\n", c.module, release, len(added), len(broken))
	return exceptions.judge(broken, c.allowed)
}

// remove removes a temporary folder.
func remove(folder string) { _ = os.RemoveAll(folder) }

// oneLine makes one line of a message, whose types may have several.
func oneLine(message string) string { return strings.Join(strings.Fields(message), " ") }
