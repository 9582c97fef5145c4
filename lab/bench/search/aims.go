// Copyright The Tripod Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"fmt"

	"github.com/tripod-k8s/tripod/lab/bench/table"
)

// aim is a limit of a figure. Zero means that it was not measured.
type aim struct {
	what          string
	limit, figure float64
	unit          string
}

// ratio returns how two figures compare, or zero if one of them was not measured.
func (r *report) ratio(of func(*compared) float64) float64 {
	ours, theirs := r.Sides[tripod], r.Sides[clusterpedia]
	if ours == nil || theirs == nil || of(theirs) == 0 {
		return 0
	}
	return of(ours) / of(theirs)
}

// aims returns what search should reach.
func (r *report) aims() []aim {
	list := searches[0].Name
	all := []aim{
		{"first copy, time, of Clusterpedia's", 0.5, r.ratio(func(c *compared) float64 { return c.Sync.Seconds }), "×"},
		{"first copy, memory at most, of Clusterpedia's", 0.25, r.ratio(func(c *compared) float64 { return c.Sync.Peak }), "×"},
		{list + ", processor time of the API, of Clusterpedia's", 0.5, r.ratio(func(c *compared) float64 {
			for _, f := range c.Found {
				if f.Name == list {
					return f.CPU
				}
			}
			return 0
		}), "×"},
	}
	if c := r.Sides[tripod]; c != nil {
		perObjects := 0.0
		if r.Objects >= 100_000 { // fewer objects only show garbage
			perObjects = max(c.Sync.Rest-c.Sync.Empty, 0.01) * 1e5 / float64(r.Objects)
		}
		all = append(all, aim{"memory of 100,000 objects at rest, MB", 10, perObjects, ""})
		if c.Lag != nil {
			all = append(all, aim{fmt.Sprintf("lag at %d changes/s, p99 ms", r.Changes), 250, c.Lag.P99, ""})
		}
		if c.Watches != nil {
			all = append(all, aim{fmt.Sprintf("lag at %d watches, p99 ms", watches), 500, c.Watches.P99, ""})
		}
	}
	if r.Many != nil {
		for _, f := range r.Many.Found {
			if f.Aim > 0 {
				all = append(all, aim{fmt.Sprintf("%d objects: %s, p99 ms", r.Many.Objects, f.Name), f.Aim, f.P99, ""})
			}
		}
	}
	return all
}

func (r *report) aimTable() table.Table {
	t := table.Table{Title: "Aims", Header: []string{"", "aim", "measured", ""}}
	for _, a := range r.aims() {
		verdict := "met"
		switch {
		case a.figure == 0:
			verdict = "not measured"
		case a.figure > a.limit && r.busy():
			verdict = "not settled, the machine was busy"
		case a.figure > a.limit:
			verdict = fmt.Sprintf("**not met**, %.1f times as much", a.figure/a.limit)
		}
		t.Rows = append(t.Rows, []string{a.what, fmt.Sprintf("≤ %s%g", a.unit, a.limit), a.unit + table.Number(a.figure), verdict})
	}
	return t
}
