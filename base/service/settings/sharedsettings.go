// Copyright The Tripod Authors.
// SPDX-License-Identifier: Apache-2.0

// Package settings is about what all services must have in common: the version that they emulate, feature gates, --runtime-config,
// modes of authorization and who is let in without credentials. kube-apiserver decides by these what it serves, stores and accepts, and
// core, extensions and aggregator each do a part of that.
//
// Services are upgraded one after the other, so differing binaries are no disagreement, and neither are gates that have another default
// there. The version whose API they have must be the same, so the newer ones emulate the older one. Two minor versions may be
// next to each other, as Kubernetes allows for API servers (https://kubernetes.io/releases/version-skew-policy/#kube-apiserver).
package settings

import (
	"cmp"
	"fmt"
	"math"
	"slices"
	"strconv"
	"strings"

	"k8s.io/apimachinery/pkg/util/version"
	"k8s.io/apiserver/pkg/apis/apiserver"
	cliflag "k8s.io/component-base/cli/flag"
	"k8s.io/component-base/compatibility"
	"k8s.io/component-base/featuregate"

	backendv1 "github.com/tripod-k8s/tripod/proto/backend/v1"
)

// Access says who is let in, and who decides what they may do.
type Access struct {
	// Modes are those of authorization, in their order.
	Modes []string
	// Anonymous says who is let in without credentials. It is nil in a service that does not decide that.
	Anonymous *apiserver.AnonymousAuthConfig
}

func (a Access) anonymousAuth() string {
	switch {
	case a.Anonymous == nil:
		return ""
	case !a.Anonymous.Enabled || len(a.Anonymous.Conditions) == 0:
		return strconv.FormatBool(a.Anonymous.Enabled)
	}
	var paths []string
	for _, condition := range a.Anonymous.Conditions {
		paths = append(paths, condition.Path)
	}
	slices.Sort(paths)
	return "true at " + strings.Join(paths, ",")
}

// Of returns the settings of a process with these versions and gates, this --runtime-config and this access.
func Of(components compatibility.ComponentGlobalsRegistry, runtimeConfig cliflag.ConfigurationMap, access Access) *backendv1.Settings {
	versions := components.EffectiveVersionFor(compatibility.DefaultKubeComponent)
	gates := components.FeatureGateFor(compatibility.DefaultKubeComponent)
	settings := &backendv1.Settings{
		BinaryVersion:           versions.BinaryVersion().String(),
		EmulationVersion:        minor(versions.EmulationVersion()),
		MinCompatibilityVersion: minor(versions.MinCompatibilityVersion()),
		FeatureGates:            map[string]bool{},
		RuntimeConfig:           RenameCoreGroup(runtimeConfig), // core's was renamed already
		AuthorizationModes:      access.Modes,
		AnonymousAuth:           access.anonymousAuth(),
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

// Differences says what theirs and ours disagree about, sorted. Nil settings agree with all others: they are those of a replica
// that does not report.
func Differences(ours, theirs *backendv1.Settings) []string {
	return compareSettings(ours, theirs, true)
}

// DifferencesOfOthers is Differences for an API service of others. It need not have our version of the API, if it emulates none.
func DifferencesOfOthers(ours, theirs *backendv1.Settings) []string {
	return compareSettings(ours, theirs, emulates(ours) || emulates(theirs))
}

func compareSettings(ours, theirs *backendv1.Settings, sameAPI bool) []string {
	if ours == nil || theirs == nil {
		return nil
	}
	var found []string
	differ := func(what, here, there string) {
		if here != there {
			found = append(found, fmt.Sprintf("%s is %s here and %s there", what, cmp.Or(here, "not set"), cmp.Or(there, "not set")))
		}
	}
	if skew(ours.GetBinaryVersion(), theirs.GetBinaryVersion()) > 1 {
		found = append(found, fmt.Sprintf("Kubernetes is %s here and %s there: upgrade by one minor version at a time",
			ours.GetBinaryVersion(), theirs.GetBinaryVersion()))
	}
	sameRelease := releaseOf(ours.GetBinaryVersion()) == releaseOf(theirs.GetBinaryVersion())
	if sameRelease || sameAPI {
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
	if here, there := ours.GetAuthorizationModes(), theirs.GetAuthorizationModes(); len(here) > 0 && len(there) > 0 {
		differ("--authorization-mode", decisive(here), decisive(there))
	}
	if here, there := ours.GetAnonymousAuth(), theirs.GetAnonymousAuth(); here != "" && there != "" {
		differ("--anonymous-auth", here, there)
	}
	return found
}

// decisive returns modes without Node, which decides nothing outside of core.
func decisive(modes []string) string {
	return strings.Join(slices.DeleteFunc(slices.Clone(modes), func(mode string) bool { return mode == "Node" }), ",")
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

// skew is how many minor versions lie between two versions. What is no version is equal to all others.
func skew(a, b string) int {
	one, err := version.ParseGeneric(a)
	other, otherErr := version.ParseGeneric(b)
	if err != nil || otherErr != nil {
		return 0
	}
	if one.Major() != other.Major() {
		return math.MaxInt
	}
	return int(max(one.Minor(), other.Minor()) - min(one.Minor(), other.Minor()))
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
