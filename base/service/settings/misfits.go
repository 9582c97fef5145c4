// Copyright The Tripod Authors.
// SPDX-License-Identifier: Apache-2.0

package settings

import (
	"fmt"
	"maps"
	"slices"

	"k8s.io/apimachinery/pkg/util/version"

	backendv1 "github.com/tripod-k8s/tripod/proto/backend/v1"
)

// Misfits returns the replicas whose version of Kubernetes does not fit those of the others, and why. replicas are the settings by name,
// and own those of the process that asks, which takes part.
//
//   - A fleet has two minor versions at most. If others than own have both the one before and the next one, those stay of which the fleet
//     has more, and otherwise the older ones.
//   - While services of an older version run, the newer ones emulate it. Otherwise they may store fields and versions that the older ones
//     do not know. The version of the API that most have is in force, or the older one of two that are as frequent.
//
// A replica that reports no version fits.
func Misfits(own *backendv1.Settings, replicas map[string]*backendv1.Settings) map[string]string {
	misfits := map[string]string{}
	here, known := memberOf("this aggregator", own)
	if !known {
		return misfits
	}
	var members []member
	for _, name := range slices.Sorted(maps.Keys(replicas)) {
		if m, known := memberOf(name, replicas[name]); known {
			members = append(members, m)
		}
	}
	oldest, newest := window(here.binary, members)
	fleet := []member{here}
	for _, m := range members {
		if m.binary.LessThan(oldest) || newest.LessThan(m.binary) {
			misfits[m.name] = fmt.Sprintf("it is of Kubernetes %s, and the others are of %s: upgrade by one minor version at a time",
				replicas[m.name].GetBinaryVersion(), either(oldest, newest))
		} else {
			fleet = append(fleet, m)
		}
	}
	agreed := mostFrequent(fleet)
	for _, m := range fleet[1:] {
		older := slices.IndexFunc(fleet, func(other member) bool { return other.binary.LessThan(m.api) })
		switch {
		case m.binary.LessThan(agreed):
			misfits[m.name] = fmt.Sprintf("it is of Kubernetes %s, and the others have the API of %s and may store what it does not know: "+
				"replace it by one of %s", minor(m.binary), minor(agreed), minor(agreed))
		case agreed.LessThan(m.api) && older >= 0:
			misfits[m.name] = fmt.Sprintf("it has the API of Kubernetes %s, and %s is of %s and may not know what it stores: "+
				"start it with --emulated-version=%s until all are replaced",
				minor(m.api), fleet[older].name, minor(fleet[older].binary), minor(agreed))
		}
	}
	return misfits
}

// member is a process with the minor versions of its binary and of its API.
type member struct {
	name        string
	binary, api *version.Version
}

func memberOf(name string, s *backendv1.Settings) (_ member, known bool) {
	binary, err := version.ParseGeneric(s.GetBinaryVersion())
	if err != nil {
		return member{}, false
	}
	m := member{name: name, binary: version.MajorMinor(binary.Major(), binary.Minor())}
	m.api = m.binary
	if api, err := version.ParseGeneric(s.GetEmulationVersion()); err == nil {
		m.api = version.MajorMinor(api.Major(), api.Minor())
	}
	return m, true
}

// window returns the versions that a fleet with a version may have.
func window(here *version.Version, members []member) (oldest, newest *version.Version) {
	next := version.MajorMinor(here.Major(), here.Minor()+1)
	olderOnes, newerOnes := 0, 0
	for _, m := range members {
		switch {
		case m.binary.EqualTo(next):
			newerOnes++
		case version.MajorMinor(m.binary.Major(), m.binary.Minor()+1).EqualTo(here):
			olderOnes++
		}
	}
	switch {
	case olderOnes > 0 && olderOnes >= newerOnes:
		return version.MajorMinor(here.Major(), here.Minor()-1), here
	case newerOnes > 0:
		return here, next
	}
	return here, here
}

// mostFrequent returns the version of the API that most have, or the oldest of those that are as frequent.
func mostFrequent(fleet []member) *version.Version {
	counts := map[string]int{}
	best := fleet[0].api
	for _, m := range fleet {
		counts[minor(m.api)]++
	}
	for _, m := range fleet {
		more := counts[minor(m.api)] - counts[minor(best)]
		if more > 0 || more == 0 && m.api.LessThan(best) {
			best = m.api
		}
	}
	return best
}

func either(oldest, newest *version.Version) string {
	if oldest.EqualTo(newest) {
		return minor(oldest)
	}
	return minor(oldest) + " and " + minor(newest)
}
