// Copyright The Tripod Authors.
// SPDX-License-Identifier: Apache-2.0

package settings

import (
	"maps"
	"strings"

	cliflag "k8s.io/component-base/cli/flag"
)

// coreGroup is the name of the core group in --runtime-config.
const coreGroup = "/v1"

// RenameCoreGroup returns --runtime-config as kube-apiserver reads it. It replaces names from before API groups existed, such as api/v1, by
// names of the core group, and removes api/legacy.
func RenameCoreGroup(config cliflag.ConfigurationMap) cliflag.ConfigurationMap {
	renamed := maps.Clone(config)
	for name, value := range config {
		short := strings.TrimPrefix(name, "api/")
		switch {
		case short == "v1" || strings.HasPrefix(short, "v1/"):
			delete(renamed, name)
			renamed[coreGroup] = value
		case name == "api/legacy":
			delete(renamed, name)
		}
	}
	return renamed
}
