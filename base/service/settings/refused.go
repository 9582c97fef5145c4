// Copyright The Tripod Authors.
// SPDX-License-Identifier: Apache-2.0

package settings

import (
	"fmt"

	"k8s.io/apiserver/pkg/features"
	"k8s.io/component-base/compatibility"
)

// NoStorageVersions is why services refuse the gate StorageVersionAPI.
const NoStorageVersions = "storage versions are agreed upon by servers that each serve all groups in one process, " +
	"and here each service serves some"

// NoPeers is why services refuse the flags --peer-* and the gate UnknownVersionInteroperabilityProxy, which needs them.
const NoPeers = "requests are not passed on to API servers of other versions, because core and extensions would each " +
	"have to find a peer of their own kind"

// Refuse returns an error if a gate is on that needs all APIs in one process. A service that started with it would block all writes.
func Refuse(components compatibility.ComponentGlobalsRegistry) error {
	gates := components.FeatureGateFor(compatibility.DefaultKubeComponent)
	if gates != nil && gates.Enabled(features.StorageVersionAPI) {
		return fmt.Errorf("--feature-gates=%s=true cannot be used with Tripod: %s", features.StorageVersionAPI, NoStorageVersions)
	}
	return nil
}
