// Copyright The Tripod Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"maps"
	"regexp"
	"slices"
	"strings"

	"github.com/tripod-k8s/tripod/base/service/settings"
)

// setting is how the clusters start for some of the specs.
type setting struct {
	name string
	// specs matches the names of its specs, which have their labels.
	specs *regexp.Regexp
	// gates are on, besides those that the names of the specs have as labels.
	gates []string
	// apis is the value of --runtime-config.
	apis string
	// refused is the reason why Tripod does not start with this setting.
	refused string
}

// allSettings are the settings, the first that matches a spec is its own.
var allSettings = []*setting{
	{
		name: "storage-versions", specs: regexp.MustCompile(`\[Feature:StorageVersionAPI\]`),
		gates: []string{"StorageVersionAPI", "APIServerIdentity"}, apis: "internal.apiserver.k8s.io/v1alpha1=true",
		refused: settings.NoStorageVersions,
	},
	{
		name: "gates", specs: regexp.MustCompile(`\[Feature:(OffByDefault|CBOR)\]`),
		gates: []string{"CBORServingAndStorage"}, apis: "api/all=true",
	},
	{name: "default", specs: regexp.MustCompile("")},
}

// gateLabel is the label of a feature gate in the name of a spec.
var gateLabel = regexp.MustCompile(`\[FeatureGate:(\w+)\]`)

// settingOf returns the setting of a spec.
func settingOf(spec string) *setting {
	return allSettings[slices.IndexFunc(allSettings, func(s *setting) bool { return s.specs.MatchString(spec) })]
}

// bySetting returns the specs of each setting that has some.
func bySetting(specs []string) map[*setting][]string {
	found := map[*setting][]string{}
	for _, spec := range specs {
		s := settingOf(spec)
		found[s] = append(found[s], spec)
	}
	return found
}

// gateFlags returns the flag that turns on the gates of the setting. All specs of the suite count, so that a run of some starts the same
// clusters.
func (s *setting) gateFlags(suite []string) []string {
	if len(s.gates) == 0 {
		return nil
	}
	on := map[string]bool{}
	for _, gate := range s.gates {
		on[gate+"=true"] = true
	}
	for _, spec := range bySetting(suite)[s] {
		for _, label := range gateLabel.FindAllStringSubmatch(spec, -1) {
			on[label[1]+"=true"] = true
		}
	}
	return []string{"--feature-gates=" + strings.Join(slices.Sorted(maps.Keys(on)), ",")}
}

// apiFlags returns the flag that serves more APIs.
func (s *setting) apiFlags() []string {
	if s.apis == "" {
		return nil
	}
	return []string{"--runtime-config=" + s.apis}
}
