// Copyright The Tripod Authors.
// SPDX-License-Identifier: Apache-2.0

// Package settings is about what all services must have in common: the version that they emulate, feature gates and
// --runtime-config. kube-apiserver decides by these what it serves, stores and accepts, and core, extensions and aggregator
// each do a part of that.
//
// Services are upgraded one after the other, so differing binaries are no disagreement, and neither is that each emulates the
// version of its own binary or has the gates that are the default there. What was asked of one and not of the other is.
package settings

import (
	"cmp"
	"fmt"
	"slices"
	"strconv"

	"k8s.io/apimachinery/pkg/util/version"
	cliflag "k8s.io/component-base/cli/flag"
	"k8s.io/component-base/compatibility"
	"k8s.io/component-base/featuregate"

	backendv1 "github.com/tripod-k8s/tripod/proto/backend/v1"
)

// Of returns the settings of a process with these versions and gates, and this --runtime-config.
func Of(components compatibility.ComponentGlobalsRegistry, runtimeConfig cliflag.ConfigurationMap) *backendv1.Settings {
	versions := components.EffectiveVersionFor(compatibility.DefaultKubeComponent)
	gates := components.FeatureGateFor(compatibility.DefaultKubeComponent)
	settings := &backendv1.Settings{
		BinaryVersion:           versions.BinaryVersion().String(),
		EmulationVersion:        minor(versions.EmulationVersion()),
		MinCompatibilityVersion: minor(versions.MinCompatibilityVersion()),
		FeatureGates:            map[string]bool{},
		RuntimeConfig:           RenameCoreGroup(runtimeConfig), // core's was renamed already
	}
	if known, ok := gates.(featuregate.MutableFeatureGate); ok {
		for gate, spec := range known.GetAll() {
			if on := gates.Enabled(gate); on != spec.Default {
				settings.FeatureGates[string(gate)] = on
			}
		}
	}
	return settings
}

func minor(v *version.Version) string { return fmt.Sprintf("%d.%d", v.Major(), v.Minor()) }

// Differences says what theirs and ours disagree about, sorted. Nil settings agree with everybody: they are those of a replica
// that does not tell.
func Differences(ours, theirs *backendv1.Settings) []string {
	if ours == nil || theirs == nil {
		return nil
	}
	var found []string
	differ := func(what, here, there string) {
		if here != there {
			found = append(found, fmt.Sprintf("%s is %s here and %s there", what, cmp.Or(here, "not set"), cmp.Or(there, "not set")))
		}
	}
	sameRelease := releaseOf(ours.GetBinaryVersion()) == releaseOf(theirs.GetBinaryVersion())
	if sameRelease || emulates(ours) || emulates(theirs) {
		differ("--emulated-version", ours.GetEmulationVersion(), theirs.GetEmulationVersion())
	}
	if sameRelease {
		differ("--min-compatibility-version", ours.GetMinCompatibilityVersion(), theirs.GetMinCompatibilityVersion())
	}
	for _, gate := range names(ours.GetFeatureGates(), theirs.GetFeatureGates()) {
		here, isHere := ours.GetFeatureGates()[gate]
		there, isThere := theirs.GetFeatureGates()[gate]
		switch {
		case isHere && isThere:
			differ("feature gate "+gate, strconv.FormatBool(here), strconv.FormatBool(there))
		case ours.GetEmulationVersion() != theirs.GetEmulationVersion() || !sameRelease:
			// It may be the default of the other version, or not be known to it.
		case isHere:
			differ("feature gate "+gate, strconv.FormatBool(here), strconv.FormatBool(!here))
		default:
			differ("feature gate "+gate, strconv.FormatBool(!there), strconv.FormatBool(there))
		}
	}
	for _, name := range names(ours.GetRuntimeConfig(), theirs.GetRuntimeConfig()) {
		differ("--runtime-config of "+name, ours.GetRuntimeConfig()[name], theirs.GetRuntimeConfig()[name])
	}
	return found
}

// emulates reports whether a version is emulated that is not that of the binary.
func emulates(s *backendv1.Settings) bool {
	return s.GetEmulationVersion() != releaseOf(s.GetBinaryVersion())
}

// releaseOf returns the minor release of a version, as in 1.36 of 1.36.3.
func releaseOf(binary string) string {
	if v, err := version.ParseGeneric(binary); err == nil {
		return minor(v)
	}
	return binary
}

func names[V any](a, b map[string]V) []string {
	return slices.Compact(slices.Sorted(func(yield func(string) bool) {
		for _, m := range []map[string]V{a, b} {
			for name := range m {
				if !yield(name) {
					return
				}
			}
		}
	}))
}
