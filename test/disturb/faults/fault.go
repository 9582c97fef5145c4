// Copyright The Tripod Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"slices"
	"time"
)

// needs says what a fault needs of the machine.
type needs int

const (
	nothing needs = iota
	network
	limits
	ownDisk
	clocks
)

// fault is something that breaks.
type fault struct {
	name  string
	group string
	sides []string
	needs needs
	// cuts says that the fault keeps a replica from what is new about rights, and that it serves nevertheless, or again at its end.
	cuts bool
	// coresAway is how many replicas of core it takes away.
	coresAway int
	// replaces is the authority that it replaces. The certificate that ends is one of the old authority then.
	replaces string
	// atLeast is how long it lasts at least, because it takes longer than others to show.
	atLeast time.Duration
	// short says that the short form has it.
	short      bool
	begin, end func(context.Context, *cluster) error
}

// faults returns all faults in the order of the table.
func faults() []fault {
	return slices.Concat(ends(), stops(), members(), partitions(), losses(), disks(), memories(), clockJumps(), lies(), expiries(), replacements())
}

// leftOut returns why a machine cannot have this fault, or nothing.
func (f fault) leftOut(m *machine) string {
	switch f.needs {
	case network:
		return m.noNetwork
	case limits:
		return m.noLimits
	case ownDisk:
		return m.noDisk
	case clocks:
		return clockReason()
	case nothing:
	}
	return ""
}

// bounds returns how long rights may stay in force after their end, as docs/threat-model.md states it. A replica that is cut off keeps what it
// knew, and may need until the next ping to hear the rest.
func (f fault) bounds(s side, rights *revocation, mended time.Time) map[string]time.Duration {
	bounds := map[string]time.Duration{byRight: tokenCache, byCustomRight: tokenCache, byToken: tokenCache, byCertificate: time.Second}
	if f.replaces != "" {
		bounds[byCertificate] = authoritiesAreRead
	}
	if !s.stock && f.coresAway == s.replicas {
		bounds[byToken] = identityGrace
	}
	if !f.cuts {
		return bounds
	}
	for way := range bounds {
		bounds[way] += max(0, mended.Sub(rights.ended(way))) + newsWithin
	}
	return bounds
}
