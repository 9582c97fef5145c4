// Copyright The Tripod Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import "fmt"

// shard is a part of the specs: the number-th of total, counted from 1.
type shard struct{ number, total int }

func (s *shard) String() string { return fmt.Sprintf("%d/%d", s.number, s.total) }

// Set parses a part such as 2/6.
func (s *shard) Set(value string) error {
	var parsed shard
	if n, err := fmt.Sscanf(value+"\n", "%d/%d\n", &parsed.number, &parsed.total); n != 2 || err != nil {
		return fmt.Errorf("%q is not like 2/6", value)
	}
	if parsed.number < 1 || parsed.number > parsed.total {
		return fmt.Errorf("there is no part %d of %d", parsed.number, parsed.total)
	}
	*s = parsed
	return nil
}

// of returns every total-th spec, so that each part has specs of all groups.
func (s *shard) of(specs []string) []string {
	var part []string
	for i, spec := range specs {
		if i%s.total == s.number-1 {
			part = append(part, spec)
		}
	}
	return part
}
