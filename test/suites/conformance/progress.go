// Copyright The Tripod Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"bytes"
	"fmt"
	"io"
	"strings"
)

const (
	// bullet starts the line with which `ginkgo -v` says how a spec ended. The next line has its name, or, where specs run
	// one after the other and the spec has passed, an earlier line.
	bullet = "•"
	// nameStart is how the name of a spec starts.
	nameStart = "[sig-"
	// nameEnd is where the name of a conformance spec ends; its labels follow.
	nameEnd = "[Conformance]"
)

// progress reads what ginkgo prints and prints a line for each spec that has ended.
type progress struct {
	output io.Writer
	title  string

	done int
	// name is the last one that was seen.
	name    string
	outcome string
	partial []byte
}

// newProgress returns a progress whose lines start with title.
func newProgress(output io.Writer, title string) *progress {
	return &progress{output: output, title: title}
}

// Write takes output of ginkgo.
func (p *progress) Write(data []byte) (int, error) {
	p.partial = append(p.partial, data...)
	for {
		line, rest, found := bytes.Cut(p.partial, []byte("\n"))
		if !found {
			return len(data), nil
		}
		p.partial = rest
		p.line(string(line))
	}
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
