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

// RenameCoreGroup does to --runtime-config what kube-apiserver does before it reads it: names from the time before groups,
// such as api/v1, become that of the core group, and api/legacy goes.
func RenameCoreGroup(config cliflag.ConfigurationMap) {
	for name, value := range maps.Clone(config) {
		short := strings.TrimPrefix(name, "api/")
		switch {
		case short == "v1" || strings.HasPrefix(short, "v1/"):
			delete(config, name)
			config[coreGroup] = value
		case name == "api/legacy":
			delete(config, name)
		}
	}
}
