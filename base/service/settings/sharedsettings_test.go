// Copyright The Tripod Authors.
// SPDX-License-Identifier: Apache-2.0

package settings

import (
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/stretchr/testify/require"
	"google.golang.org/protobuf/testing/protocmp"

	"k8s.io/apimachinery/pkg/util/version"
	"k8s.io/apiserver/pkg/apis/apiserver"
	cliflag "k8s.io/component-base/cli/flag"
	"k8s.io/component-base/compatibility"
	"k8s.io/component-base/featuregate"

	backendv1 "github.com/tripod-k8s/tripod/proto/backend/v1"
)

func TestSettingsAreWhatIsNotTheDefault(t *testing.T) {
	versions := compatibility.NewEffectiveVersionFromString("1.36.3", "1.33", "1.32")
	versions.SetEmulationVersion(version.MustParse("1.35"))
	versions.SetMinCompatibilityVersion(version.MustParse("1.34"))
	gates := featuregate.NewVersionedFeatureGate(versions.EmulationVersion())
	at := func(v string, on bool) featuregate.VersionedSpecs {
		return featuregate.VersionedSpecs{{Version: version.MustParse("1.30"), Default: !on, PreRelease: featuregate.Beta}, {Version: version.MustParse(v), Default: on, PreRelease: featuregate.Beta}}
	}
	if err := gates.AddVersioned(map[featuregate.Feature]featuregate.VersionedSpecs{
		"On": at("1.34", true), "Off": at("1.34", false), "TurnedOn": at("1.34", false), "SaidAgain": at("1.34", true), "OnLater": at("1.36", true),
	}); err != nil {
		t.Fatal(err)
	}
	require.NoError(t, gates.Set("TurnedOn=true,SaidAgain=true"))
	components := compatibility.NewComponentGlobalsRegistry()
	require.NoError(t, components.Register(compatibility.DefaultKubeComponent, versions, gates))
	want := &backendv1.Settings{
		BinaryVersion: "1.36.3", EmulationVersion: "1.35", MinCompatibilityVersion: "1.34",
		FeatureGates: map[string]bool{"TurnedOn": true}, RuntimeConfig: map[string]string{"api/all": "true"},
		AuthorizationModes: []string{"Node", "RBAC"}, AnonymousAuth: "true at /healthz,/livez",
	}
	access := Access{Modes: []string{"Node", "RBAC"}, Anonymous: &apiserver.AnonymousAuthConfig{
		Enabled: true, Conditions: []apiserver.AnonymousAuthCondition{{Path: "/livez"}, {Path: "/healthz"}},
	}}
	if diff := cmp.Diff(want, Of(components, cliflag.ConfigurationMap{"api/all": "true", "api/legacy": "true"}, access), protocmp.Transform()); diff != "" {
		t.Errorf("settings (-want +got):\n%s", diff)
	}
}

func TestTheCoreGroupHasOneName(t *testing.T) {
	for _, test := range []struct {
		name         string
		config, want cliflag.ConfigurationMap
	}{
		{"as kube-apiserver rewrites it", cliflag.ConfigurationMap{"/v1": "true"}, cliflag.ConfigurationMap{"/v1": "true"}},
		{"with api", cliflag.ConfigurationMap{"api/v1": "true"}, cliflag.ConfigurationMap{"/v1": "true"}},
		{"without api", cliflag.ConfigurationMap{"v1": "true"}, cliflag.ConfigurationMap{"/v1": "true"}},
		{"a resource", cliflag.ConfigurationMap{"api/v1/pods": "true"}, cliflag.ConfigurationMap{"/v1": "true"}},
		{"legacy", cliflag.ConfigurationMap{"api/legacy": "false"}, cliflag.ConfigurationMap{}},
		{
			"others", cliflag.ConfigurationMap{"api/all": "true", "v1beta1": "true", "batch/v1": "true"},
			cliflag.ConfigurationMap{"api/all": "true", "v1beta1": "true", "batch/v1": "true"},
		},
	} {
		t.Run(test.name, func(t *testing.T) {
			if diff := cmp.Diff(test.want, RenameCoreGroup(test.config)); diff != "" {
				t.Error(diff)
			}
		})
	}
	RenameCoreGroup(nil)
}

func TestDifferences(t *testing.T) {
	settings := func(change func(*backendv1.Settings)) *backendv1.Settings {
		s := &backendv1.Settings{
			BinaryVersion: "1.36.3", EmulationVersion: "1.36", MinCompatibilityVersion: "1.35",
			FeatureGates: map[string]bool{"A": true}, RuntimeConfig: map[string]string{"api/all": "true"},
			AuthorizationModes: []string{"RBAC"}, AnonymousAuth: "true",
		}
		if change != nil {
			change(s)
		}
		return s
	}
	newer := func(emulated string, gates map[string]bool) *backendv1.Settings {
		return settings(func(s *backendv1.Settings) {
			s.BinaryVersion, s.EmulationVersion, s.MinCompatibilityVersion, s.FeatureGates = "1.37.0", emulated, "1.36", gates
		})
	}
	for _, tc := range []struct {
		name   string
		theirs *backendv1.Settings
		want   []string
	}{
		{name: "the same", theirs: settings(nil)},
		{name: "no settings"},
		{name: "another patch release", theirs: settings(func(s *backendv1.Settings) { s.BinaryVersion = "1.36.9" })},
		{
			name: "versions", theirs: settings(func(s *backendv1.Settings) { s.EmulationVersion, s.MinCompatibilityVersion = "1.35", "1.34" }),
			want: []string{"--emulated-version is 1.36 here and 1.35 there", "--min-compatibility-version is 1.35 here and 1.34 there"},
		},
		{
			name: "a gate the other way", theirs: settings(func(s *backendv1.Settings) { s.FeatureGates = map[string]bool{"A": false} }),
			want: []string{"feature gate A is true here and false there"},
		},
		{
			name: "gates that only one has", theirs: settings(func(s *backendv1.Settings) { s.FeatureGates = map[string]bool{"B": false} }),
			want: []string{"feature gate A is true here and false there", "feature gate B is true here and false there"},
		},
		{
			name: "runtime config", theirs: settings(func(s *backendv1.Settings) { s.RuntimeConfig = map[string]string{"batch/v1": "false"} }),
			want: []string{"--runtime-config of api/all is true here and not set there", "--runtime-config of batch/v1 is not set here and false there"},
		},
		{
			name: "a backend that allows everything", theirs: settings(func(s *backendv1.Settings) { s.AuthorizationModes = []string{"AlwaysAllow"} }),
			want: []string{"--authorization-mode is RBAC here and AlwaysAllow there"},
		},
		{name: "mode Node", theirs: settings(func(s *backendv1.Settings) { s.AuthorizationModes = []string{"Node", "RBAC"} })},
		{
			name: "nobody anonymous", theirs: settings(func(s *backendv1.Settings) { s.AnonymousAuth = "false" }),
			want: []string{"--anonymous-auth is true here and false there"},
		},
		{name: "modes and anonymous are missing", theirs: settings(func(s *backendv1.Settings) { s.AuthorizationModes, s.AnonymousAuth = nil, "" })},
		{
			name: "an upgrade without emulation", theirs: newer("1.37", nil),
			want: []string{"--emulated-version is 1.36 here and 1.37 there"},
		},
		{name: "an upgrade that goes on to emulate", theirs: newer("1.36", map[string]bool{"New": true})},
		{
			name: "an upgrade that emulates yet another version", theirs: newer("1.35", nil),
			want: []string{"--emulated-version is 1.36 here and 1.35 there"},
		},
		{
			name: "an upgrade with a gate the other way", theirs: newer("1.36", map[string]bool{"A": false}),
			want: []string{"feature gate A is true here and false there"},
		},
	} {
		t.Run(tc.name, func(t *testing.T) {
			if got := Differences(settings(nil), tc.theirs); !slices.Equal(got, tc.want) {
				t.Errorf("%q, want %q", got, tc.want)
			}
		})
	}
}

func TestAnAPIServiceOfOthersMayBeOfAnotherVersion(t *testing.T) {
	ours := &backendv1.Settings{BinaryVersion: "1.36.3", EmulationVersion: "1.36"}
	for emulated, want := range map[string][]string{"1.37": nil, "1.36": nil, "1.35": {"--emulated-version is 1.36 here and 1.35 there"}} {
		got := DifferencesOfOthers(ours, &backendv1.Settings{BinaryVersion: "1.37.2", EmulationVersion: emulated})
		if !slices.Equal(got, want) {
			t.Errorf("%s: %q, want %q", emulated, got, want)
		}
	}
}

func TestAFleetHasTwoMinorVersionsAtMost(t *testing.T) {
	for _, test := range []struct {
		ours, theirs string
		differs      bool
	}{
		{"1.37.2", "1.37.2", false}, {"1.37.2", "1.36.0", false}, {"1.36.3", "1.37.0", false}, {"1.37.2", "1.35.9", true}, {"1.35.9", "1.37.2", true},
		{"1.37.2", "2.37.2", true}, {"1.37.2", "", false}, {"0.0.0", "1.37.2", true},
	} {
		found := Differences(&backendv1.Settings{BinaryVersion: test.ours, EmulationVersion: "1.35"}, &backendv1.Settings{BinaryVersion: test.theirs, EmulationVersion: "1.35"})
		if is := slices.ContainsFunc(found, func(d string) bool { return strings.Contains(d, "one minor version at a time") }); is != test.differs {
			t.Errorf("%s and %s: %q", test.ours, test.theirs, found)
		}
	}
}
