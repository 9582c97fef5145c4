// Copyright The Tripod Authors.
// SPDX-License-Identifier: Apache-2.0

package requests

import (
	"fmt"
	"os"
	"regexp"

	"sigs.k8s.io/yaml"
)

// accepted is one entry of accepted.yaml: the differences that its patterns match, all of them, are meant to be.
type accepted struct {
	// Request, At, Stock and Tripod are regular expressions for the whole of what they are named after. Those that
	// are not given match anything.
	Request string `json:"request,omitempty"`
	At      string `json:"at,omitempty"`
	Stock   string `json:"stock,omitempty"`
	Tripod  string `json:"tripod,omitempty"`
	// Reason is why the difference must be.
	Reason string `json:"reason"`

	patterns [4]*regexp.Regexp
	occurs   bool
}

func (a *accepted) compile() error {
	for i, text := range []string{a.Request, a.At, a.Stock, a.Tripod} {
		if text == "" {
			text = ".*"
		}
		pattern, err := regexp.Compile("(?s)^(?:" + text + ")$")
		if err != nil {
			return err
		}
		a.patterns[i] = pattern
	}
	if a.Reason == "" || a.Request+a.At == "" {
		return fmt.Errorf("entry %+v needs a reason, and a request or a place", *a)
	}
	return nil
}

func (a *accepted) matches(d difference) bool {
	for i, text := range []string{d.request, d.at, d.stock, d.tripod} {
		if !a.patterns[i].MatchString(text) {
			return false
		}
	}
	return true
}

// acceptedList is accepted.yaml.
type acceptedList []*accepted

func readAccepted(path string) (acceptedList, error) {
	data, err := os.ReadFile(path)
	if err != nil {
		return nil, fmt.Errorf("cannot read the accepted differences: %w", err)
	}
	var list acceptedList
	if err := yaml.UnmarshalStrict(data, &list); err != nil {
		return nil, fmt.Errorf("%s: %w", path, err)
	}
	for _, entry := range list {
		if err := entry.compile(); err != nil {
			return nil, fmt.Errorf("%s: %w", path, err)
		}
	}
	return list, nil
}

// accepts reports whether an entry allows the difference, and records which.
func (l acceptedList) accepts(d difference) bool {
	for _, entry := range l {
		if entry.matches(d) {
			entry.occurs = true
			return true
		}
	}
	return false
}
