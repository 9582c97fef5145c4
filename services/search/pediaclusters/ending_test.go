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

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/dynamic/fake"

	"github.com/tripod-k8s/tripod/services/search/apis/cluster/v1alpha2"
	"github.com/tripod-k8s/tripod/services/search/hub"
	"github.com/tripod-k8s/tripod/services/search/member"
	"github.com/tripod-k8s/tripod/services/search/store"
)

// TestAMemberThatDoesNotEndHoldsUpNoOther has three clusters go, one of which ends only later, as its API server takes its time.
func TestAMemberThatDoesNotEndHoldsUpNoOther(t *testing.T) {
	s, err := store.Open("sqlite:" + filepath.Join(t.TempDir(), "search.db"))
	require.NoError(t, err)
	defer s.Close()
	require.NoError(t, s.Migrate(t.Context()))
	client := fake.NewSimpleDynamicClientWithCustomListKinds(runtime.NewScheme(), map[schema.GroupVersionResource]string{clusters: "PediaClusterList", resources: "ClusterSyncResourcesList"})
	limiter, err := member.NewLimiter(member.Standard())
	require.NoError(t, err)
	m := New(client, hub.StandardMemory(), Options{}, member.Dependencies{Store: s, Limiter: limiter})
	slow := make(chan struct{})
	add := func(name string, done chan struct{}) *int {
		ends := new(int)
		m.running[name] = &running{end: func() { *ends++ }, done: done}
		return ends
	}
	quick := make(chan struct{})
	close(quick)
	ended := []*int{add("a", quick), add("slow", slow), add("z", quick)}
	t.Cleanup(m.objects.Stop)
	require.Eventually(t, func() bool { _, _, err := m.read(); return err == nil }, time.Minute, 10*time.Millisecond)
	m.reconcile(t.Context())
	for _, ends := range ended {
		assert.Equal(t, 1, *ends)
	}
	assert.Contains(t, m.running, "slow")
	assert.Len(t, m.running, 1)

	wanted := &v1alpha2.PediaCluster{ObjectMeta: metav1.ObjectMeta{Name: "slow", UID: "2"}}
	over, cancel := context.WithCancel(t.Context())
	cancel()
	assert.False(t, m.identify(t.Context(), over, wanted, map[string]string{"slow": "1"}), "the former cluster of that name still runs")
	close(slow)
	m.reconcile(t.Context())
	assert.Empty(t, m.running)
}
