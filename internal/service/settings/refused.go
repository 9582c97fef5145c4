// Copyright The Tripod Authors.
// SPDX-License-Identifier: Apache-2.0

package settings

import (
	"fmt"

	"k8s.io/apiserver/pkg/features"
	"k8s.io/component-base/compatibility"
)

// NoStorageVersions is why the gate StorageVersionAPI is refused.
const NoStorageVersions = "storage versions are agreed upon by servers that each serve all groups in one process, " +
	"and here each service serves some"

// NoPeers is why the flags --peer-* and the gate UnknownVersionInteroperabilityProxy, which needs them, are refused.
const NoPeers = "requests are not passed on to API servers of other versions, because core and extensions would each " +
	"have to find a peer of their own kind"

// Refuse returns an error when a gate is on that only servers of one process can obey. A service that started with it would
// hold back all writes.
func Refuse(components compatibility.ComponentGlobalsRegistry) error {
	gates := components.FeatureGateFor(compatibility.DefaultKubeComponent)
	if gates != nil && gates.Enabled(features.StorageVersionAPI) {
		return fmt.Errorf("--feature-gates=%s=true cannot be used with Tripod: %s", features.StorageVersionAPI, NoStorageVersions)
	}
	return nil
}
