// Copyright The Tripod Authors.
// SPDX-License-Identifier: Apache-2.0

package pediaclusters

import (
	"context"
	"path/filepath"
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
	"github.com/tripod-k8s/tripod/services/search/store"
)

// TestARemovalHoldsUpNothing has a cluster go whose removal takes long. Meanwhile another one loses its policy of rights, and a new one has
// the name of the first.
func TestARemovalHoldsUpNothing(t *testing.T) {
	s, err := store.Open("sqlite:" + filepath.Join(t.TempDir(), "search.db"))
	require.NoError(t, err)
	defer s.Close()
	require.NoError(t, s.Migrate(t.Context()))
	pediaCluster := func(name, uid string) *unstructured.Unstructured {
		return &unstructured.Unstructured{Object: map[string]any{
			"apiVersion": v1alpha2.GroupVersion.String(), "kind": "PediaCluster", "metadata": map[string]any{"name": name, "uid": uid},
			"spec": map[string]any{"apiserver": "https://127.0.0.1:1"},
		}}
	}
	narrowed := pediaCluster("narrowed", "5")
	require.NoError(t, unstructured.SetNestedMap(narrowed.Object, map[string]any{}, "spec", "memberRBAC"))
	require.NoError(t, unstructured.SetNestedStringSlice(narrowed.Object, []string{"one"}, "spec", "namespaces"))
	client := fake.NewSimpleDynamicClientWithCustomListKinds(runtime.NewScheme(),
		map[schema.GroupVersionResource]string{clusters: "PediaClusterList", resources: "ClusterSyncResourcesList"}, pediaCluster("kept", "1"), pediaCluster("again", "3"), narrowed)
	limiter, err := member.NewLimiter(member.Standard())
	require.NoError(t, err)
	m := New(client, hub.StandardMemory(), Options{}, member.Dependencies{Store: s, Limiter: limiter})
	free, begun := make(chan struct{}), make(chan string, 10)
	m.removals.from = func(ctx context.Context, cluster string) error {
		begun <- cluster
		<-free
		return s.RemoveCluster(ctx, cluster)
	}
	t.Cleanup(m.objects.Stop)
	require.Eventually(t, func() bool { wanted, _, err := m.read(); return err == nil && len(wanted) == 3 }, time.Minute, 10*time.Millisecond)
	for name, uid := range map[string]string{"kept": "1", "again": "2", "gone": "4", "narrowed": "5"} {
		require.NoError(t, s.SetClusterUID(t.Context(), name, uid))
		require.NoError(t, s.SetRights(t.Context(), name, `{"username":"user.name"}`))
	}
	m.running["gone"] = &running{}
	m.reconcile(t.Context())
	assert.ElementsMatch(t, []string{"gone", "again"}, []string{<-begun, <-begun})
	policies, err := s.RightsPolicies(t.Context())
	require.NoError(t, err)
	assert.NotContains(t, policies, "kept", "its rights end while others are removed")
	assert.NotContains(t, policies, "again", "the former one of that name has no rights from now on")
	assert.NotContains(t, policies, "gone", "the rights end before the removal has a slot")
	assert.NotContains(t, policies, "narrowed", "the RBAC of a cluster is not followed in some namespaces only")
	assert.Contains(t, m.running, "kept")
	assert.NotContains(t, m.running, "again", "the former one of that name is being removed")
	assert.Contains(t, m.running, "gone")
	m.reconcile(t.Context())
	assert.Empty(t, begun)

	close(free)
	m.removals.group.Wait()
	m.reconcile(t.Context())
	assert.NotContains(t, m.running, "gone")
	assert.Contains(t, m.running, "again")
	uids, err := s.ClusterUIDs(t.Context())
	require.NoError(t, err)
	assert.Equal(t, map[string]string{"kept": "1", "again": "3", "narrowed": "5"}, uids)
	m.stop()
}
