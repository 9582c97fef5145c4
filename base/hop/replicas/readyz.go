// Copyright The Tripod Authors.
// SPDX-License-Identifier: Apache-2.0

package replicas

import (
	"context"
	"io"
	"net/http"
	"strings"

	"github.com/tripod-k8s/tripod/base/hop/recovery"
)

// maxAnswer limits how many bytes of the answer to a probe are read.
const maxAnswer = 64 << 10

// Probe says how to ask a replica whether it is ready.
type Probe struct {
	// Path is the path of the request, such as /readyz.
	Path string
	// Sign adds the sender of the request. It may be nil.
	Sign func(*http.Request)
	// IsReady reports whether a status is that of a ready replica.
	IsReady func(status int) bool
}

// UnreadyError means that a replica answers that it is not ready.
type UnreadyError struct{ Path, Status string }

func (e *UnreadyError) Error() string { return e.Path + " answers " + e.Status }

// Ask asks the replica at an address (host:port). The error is an *UnreadyError if the replica answers that it is not ready.
func (p *Probe) Ask(ctx context.Context, transport http.RoundTripper, address string) (err error) {
	defer recovery.ToError(p.Path+" of "+address, &err)
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, "https://"+address+p.Path, nil)
	if err != nil {
		return err
	}
	if p.Sign != nil {
		p.Sign(req)
	}
	resp, err := transport.RoundTrip(req)
	if err != nil {
		return err
	}
	defer resp.Body.Close() //nolint:errcheck // nothing is lost with an unread probe
	if !p.IsReady(resp.StatusCode) {
		return &UnreadyError{p.Path, resp.Status}
	}
	// Reading to the end lets the request end well.
	_, err = io.Copy(io.Discard, io.LimitReader(resp.Body, maxAnswer))
	return err
}

// Check is one check in the output of a server, such as "[+]ping ok".
type Check struct {
	Name   string
	Passes bool
	// Outcome is the text after the name.
	Outcome string
}

// String returns the line of the check.
func (c Check) String() string {
	line := "[-]" + c.Name
	if c.Passes {
		line = "[+]" + c.Name
	}
	if c.Outcome != "" {
		line += " " + c.Outcome
	}
	return line
}

// ParseChecks reads the answer to /readyz?verbose, or that of a server that is not ready.
func ParseChecks(answer string) []Check {
	var checks []Check
	for line := range strings.Lines(answer) {
		line = strings.TrimSuffix(line, "\n")
		rest, passes := strings.CutPrefix(line, "[+]")
		if !passes {
			var fails bool
			if rest, fails = strings.CutPrefix(line, "[-]"); !fails {
				continue
			}
		}
		name, outcome, _ := strings.Cut(rest, " ")
		checks = append(checks, Check{Name: name, Passes: passes, Outcome: outcome})
	}
	return checks
}
