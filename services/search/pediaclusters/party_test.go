// Copyright The Tripod Authors.
// SPDX-License-Identifier: Apache-2.0

package pediaclusters

import (
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/tripod-k8s/tripod/services/search/apis/cluster/v1alpha2"
	"github.com/tripod-k8s/tripod/services/search/apis/policy/v1alpha1"
	"github.com/tripod-k8s/tripod/services/search/parties"
)

// TestAPediaClusterDoesNotSayWhoseShareItHas holds for all that its writer may write: the status has rights of its own.
func TestAPediaClusterDoesNotSayWhoseShareItHas(t *testing.T) {
	cluster := &v1alpha2.PediaCluster{ObjectMeta: metav1.ObjectMeta{
		Name: "evil", Annotations: map[string]string{"tripod-k8s.io/party": "fleet/prod"},
		OwnerReferences: []metav1.OwnerReference{{Kind: v1alpha1.LifecycleKind, Name: "fleet-prod-a", UID: "uid-fleet-prod-a"}},
	}}
	assert.Equal(t, parties.OfCluster("evil"), partyOf(cluster))
	cluster.Status.Party = "web"
	assert.Equal(t, parties.OfCluster("evil"), partyOf(cluster), "no policy writes that")
	cluster.Status.Party = "fleet/prod"
	assert.Equal(t, parties.OfPolicy("fleet", "prod"), partyOf(cluster))
}

// TestTheStatusKeepsTheParty has the state of a cluster change, which the status has, too.
func TestTheStatusKeepsTheParty(t *testing.T) {
	m := boundedMembers(t, 1, map[string]any{"party": "fleet/prod"}, nil)
	m.running["c0"] = &running{invalid: assert.AnError}
	var wanted map[string]*v1alpha2.PediaCluster
	require.Eventually(t, func() bool {
		var err error
		wanted, _, err = m.read()
		return err == nil
	}, time.Minute, 10*time.Millisecond)
	removed := []byte(`{"status": {"party": null}}`) // by the policies, which this replica observes later
	_, err := m.client.Resource(clusters).Patch(t.Context(), "c0", types.MergePatchType, removed, metav1.PatchOptions{}, "status")
	require.NoError(t, err)
	m.updateStatus(t.Context(), wanted["c0"], nil, nil)
	written, err := m.client.Resource(clusters).Get(t.Context(), "c0", metav1.GetOptions{})
	require.NoError(t, err)
	status := written.Object["status"].(map[string]any)
	assert.NotContains(t, status, "party", "the state of the cluster says nothing about it")
	assert.Contains(t, status, "conditions")
}
