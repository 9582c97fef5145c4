// Copyright The Tripod Authors.
// SPDX-License-Identifier: Apache-2.0

package pediaclusters

import (
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/dynamic/fake"

	"github.com/tripod-k8s/tripod/services/search/apis/cluster/v1alpha2"
	"github.com/tripod-k8s/tripod/services/search/hub"
	"github.com/tripod-k8s/tripod/services/search/member"
)

// boundedMembers returns members of a hub with some PediaClusters whose status or spec is large.
func boundedMembers(t *testing.T, n int, status, spec any) *Controller {
	t.Helper()
	var objects []runtime.Object
	for i := range n {
		objects = append(objects, &unstructured.Unstructured{Object: map[string]any{
			"apiVersion": v1alpha2.GroupVersion.String(), "kind": "PediaCluster", "metadata": map[string]any{"name": fmt.Sprint("c", i)}, "spec": spec, "status": status,
		}})
	}
	lists := map[schema.GroupVersionResource]string{clusters: "PediaClusterList", resources: "ClusterSyncResourcesList"}
	m := New(fake.NewSimpleDynamicClientWithCustomListKinds(runtime.NewScheme(), lists, objects...), hub.StandardMemory(), Options{}, member.Dependencies{})
	m.objects.Bounds = hub.Bounds{Objects: 10, Bytes: 10_000}
	t.Cleanup(m.objects.Stop)
	return m
}

// TestTooManyPediaClustersChangeNothing holds for their number and for their bytes: search takes little memory, and goes on with what it
// copies.
func TestTooManyPediaClustersChangeNothing(t *testing.T) {
	large := map[string]any{"apiserver": strings.Repeat("x", 2000)}
	for name, m := range map[string]*Controller{"many": boundedMembers(t, 11, nil, nil), "large": boundedMembers(t, 6, nil, large)} {
		ends := 0
		m.running["copied"] = &running{end: func() { ends++ }, done: make(chan struct{})}
		require.Eventually(t, func() bool { _, _, err := m.read(); return errors.Is(err, hub.ErrTooMany) }, time.Minute, 10*time.Millisecond, name)
		m.reconcile(t.Context())
		assert.Zero(t, ends, "nobody knows that it has no PediaCluster: %s", name)
		assert.False(t, m.isGone("copied"), name)
	}
}

// TestTheStatusOfResourcesIsNotKept holds however many resources a cluster has.
func TestTheStatusOfResourcesIsNotKept(t *testing.T) {
	m := boundedMembers(t, 6, map[string]any{"version": "v1.30.0", "syncResources": []any{map[string]any{"group": strings.Repeat("x", 4000)}}}, nil)
	var wanted map[string]*v1alpha2.PediaCluster
	require.Eventually(t, func() bool {
		var err error
		wanted, _, err = m.read()
		return err == nil
	}, time.Minute, 10*time.Millisecond)
	require.Len(t, wanted, 6)
	assert.Equal(t, v1alpha2.ClusterStatus{Version: "v1.30.0"}, wanted["c0"].Status)
}
