// Copyright The Tripod Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"slices"
	"time"
)

// needs are what a fault needs from the machine.
type needs int

const (
	nothing needs = iota
	network
	limits
	ownDisk
	clocks
)

// fault is something to break.
type fault struct {
	name  string
	group string
	sides []string
	needs needs
	// like is the fault of kube-apiserver that compares best, if that is another one.
	like string
	// cuts is set if the fault hides changes of rights from a replica which still serves, or serves again at its end.
	cuts bool
	// coresAway is the number of core replicas that it takes away.
	coresAway int
	// replaces is the authority that it replaces. If set, the certificate that becomes invalid is one of the old authority.
	replaces string
	// atLeast is the shortest duration, for a fault that takes longer than others to show.
	atLeast time.Duration
	// short includes the fault in the short form.
	short bool
	// alerts are the alerts of the chart that it fires, and alertsAlone, if set, those where each service has one replica.
	alerts      expectation
	alertsAlone *expectation
	begin, end  func(context.Context, *cluster) error
}

// faults returns all faults, in the order of the table.
func faults() []fault {
	return slices.Concat(ends(), stops(), overloads(), members(), partitions(), losses(), disks(), memories(), clockJumps(), lies(), expiries(), replacements())
}

// leftOut returns why the fault is impossible on a machine, or "".
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

// bounds returns how long rights may stay in force after their end, according to docs/threat-model.md. A replica that is cut off keeps what it
// knew. It may need until the next ping to receive the rest.
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
