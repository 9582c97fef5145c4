// Copyright The Tripod Authors.
// SPDX-License-Identifier: Apache-2.0

package server

import (
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"maps"
	"slices"
	"strings"

	"k8s.io/component-base/featuregate"

	backendv1 "github.com/tripod-k8s/tripod/proto/backend/v1"
)

// catalogOf returns the catalog of a server with these paths. Its discovery and OpenAPI documents depend on the paths, on the build, and on
// the feature gates, which turn resources and fields on.
func catalogOf(paths []string, build string, gates featuregate.MutableFeatureGate) *backendv1.Catalog {
	digest := sha256.New()
	fmt.Fprintln(digest, build)
	for _, gate := range slices.Sorted(maps.Keys(gates.GetAll())) {
		fmt.Fprintln(digest, gate, gates.Enabled(gate))
	}
	catalog := &backendv1.Catalog{}
	for _, path := range slices.Sorted(slices.Values(paths)) {
		fmt.Fprintln(digest, path)
		if gv, ok := groupVersion(path); ok {
			catalog.GroupVersions = append(catalog.GroupVersions, gv)
		}
	}
	sum := hex.EncodeToString(digest.Sum(nil))
	catalog.DiscoveryDigest, catalog.OpenapiDigest = sum, sum
	return catalog
}

// groupVersion returns the group-version whose root is path: /api/v1 or /apis/apps/v1.
func groupVersion(path string) (*backendv1.GroupVersion, bool) {
	parts := strings.Split(strings.TrimPrefix(path, "/"), "/")
	switch {
	case len(parts) == 2 && parts[0] == "api":
		return &backendv1.GroupVersion{Version: parts[1]}, true
	case len(parts) == 3 && parts[0] == "apis":
		return &backendv1.GroupVersion{Group: parts[1], Version: parts[2]}, true
	}
	return nil, false
}
