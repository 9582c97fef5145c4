// Copyright The Tripod Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"fmt"
	"io"
	"strings"

	"github.com/tripod-k8s/tripod/test/framework"
)

const (
	// bullet starts the line with which `ginkgo -v` reports the end of a spec. The next line has the name of the spec. If specs run one
	// after the other and the spec passed, an earlier line has it instead.
	bullet = "•"
	// nameStart is how the name of a spec starts.
	nameStart = "[sig-"
	// nameEnd ends the name of a conformance spec. Its labels follow.
	nameEnd = "[Conformance]"
)

// progress reads what ginkgo prints and prints a line for each spec that has ended.
type progress struct {
	output io.Writer
	title  string

	done int
	// name is the last name in the output.
	name    string
	outcome string
}

// newProgress returns a writer for the output of ginkgo. The lines that it prints start with title.
func newProgress(output io.Writer, title string) io.Writer {
	return framework.Lines((&progress{output: output, title: title}).line)
}

func (p *progress) line(line string) {
	if outcome, found := strings.CutPrefix(line, bullet); found {
		p.outcome = strings.TrimSpace(outcome)
		return
	}
	if strings.HasPrefix(line, nameStart) {
		name, _, _ := strings.Cut(strings.ReplaceAll(line, "[It] ", ""), nameEnd)
		p.name = strings.TrimSpace(name)
	}
	if p.outcome != "" {
		p.done++
		fmt.Fprintf(p.output, "%s %3d %s %s\n", p.title, p.done, p.outcome, p.name)
		p.outcome = ""
	}
}
