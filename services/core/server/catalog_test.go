// Copyright The Tripod Authors.
// SPDX-License-Identifier: Apache-2.0

package server

import (
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"google.golang.org/protobuf/testing/protocmp"

	"k8s.io/component-base/featuregate"

	backendv1 "github.com/tripod-k8s/tripod/proto/backend/v1"
)

func gates(t *testing.T, enabled bool) featuregate.MutableFeatureGate {
	t.Helper()
	g := featuregate.NewFeatureGate()
	require.NoError(t, g.Add(map[featuregate.Feature]featuregate.FeatureSpec{"Some": {Default: enabled}}))
	return g
}

func TestCatalog(t *testing.T) {
	paths := []string{"/version", "/apis/apps/v1", "/api", "/api/v1", "/apis", "/apis/apps", "/readyz/etcd", "/apis/apps/v1/deployments"}
	got := catalogOf(paths, "v1", gates(t, true))
	want := []*backendv1.GroupVersion{{Version: "v1"}, {Group: "apps", Version: "v1"}}
	assert.Empty(t, cmp.Diff(want, got.GetGroupVersions(), protocmp.Transform()), "group-versions")
	if again := catalogOf(append(paths[3:], paths[:3]...), "v1", gates(t, true)); again.GetDiscoveryDigest() != got.GetDiscoveryDigest() {
		t.Error("the digest depends on the order of paths")
	}
	for name, other := range map[string]*backendv1.Catalog{
		"build": catalogOf(paths, "v2", gates(t, true)), "gates": catalogOf(paths, "v1", gates(t, false)), "paths": catalogOf(paths[1:], "v1", gates(t, true)),
	} {
		if other.GetDiscoveryDigest() == got.GetDiscoveryDigest() || other.GetOpenapiDigest() == got.GetOpenapiDigest() {
			t.Errorf("the digests do not depend on the %s", name)
		}
	}
}
