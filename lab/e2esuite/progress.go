// Copyright The Tripod Authors.
// SPDX-License-Identifier: Apache-2.0

package e2esuite

import (
	"io"
	"strings"
	"time"

	"github.com/tripod-k8s/tripod/test/framework"
)

const (
	// bullet starts the line with which `ginkgo -v` reports the end of a spec. The next line has the name of the spec. If specs run one
	// after the other and the spec passed, an earlier line has it instead.
	bullet = "•"
	// nameStart is how the name of a spec starts.
	nameStart = "[sig-"
)

// Ended is a spec that has ended.
type Ended struct {
	// Number counts the specs of a run from 1.
	Number int
	// Name is the whole name of the spec.
	Name string
	// Outcome is what ginkgo prints after the bullet, such as "[0.078 seconds]" or "[FAILED] [4.404 seconds]".
	Outcome string
}

// Passed reports whether the spec passed. Of others, ginkgo prints the state in capitals.
func (e Ended) Passed() bool {
	return strings.HasSuffix(e.Outcome, " seconds]") && strings.Count(e.Outcome, "[") == 1
}

// Failed reports whether the spec failed by itself: not because it, or the whole run, was out of time.
func (e Ended) Failed() bool {
	return strings.HasPrefix(e.Outcome, "[FAILED]") || strings.HasPrefix(e.Outcome, "[PANICKED!]")
}

// Took is how long the spec took, or 0 if ginkgo did not report it.
func (e Ended) Took() time.Duration {
	seconds, _, _ := strings.Cut(e.Outcome[strings.LastIndexByte(e.Outcome, '[')+1:], " ")
	took, err := time.ParseDuration(seconds + "s")
	if err != nil {
		return 0
	}
	return took
}

// progress reads what ginkgo prints and calls ended for each spec that has ended.
type progress struct {
	ended func(Ended)

	done int
	// name is the last name in the output.
	name    string
	outcome string
}

// newProgress returns a writer for the output of ginkgo.
func newProgress(ended func(Ended)) io.Writer { return framework.Lines((&progress{ended: ended}).line) }

func (p *progress) line(line string) {
	if outcome, found := strings.CutPrefix(line, bullet); found {
		p.outcome = strings.TrimSpace(outcome)
		return
	}
	if strings.HasPrefix(line, nameStart) {
		name := strings.ReplaceAll(line, "[It] ", "")
		// The labels follow.
		p.name = strings.TrimSpace(name[:strings.LastIndex(name, " [")+1])
	}
	if p.outcome != "" {
		p.done++
		p.ended(Ended{Number: p.done, Name: p.name, Outcome: p.outcome})
		p.outcome = ""
	}
}
