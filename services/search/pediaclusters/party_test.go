// Copyright The Tripod Authors.
// SPDX-License-Identifier: Apache-2.0

package pediaclusters

import (
	"testing"

	"github.com/stretchr/testify/assert"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/tripod-k8s/tripod/services/search/apis/cluster/v1alpha2"
)

func TestNoClusterJoinsAnotherOne(t *testing.T) {
	for annotation, want := range map[string]string{"fleet/prod": "fleet/prod", "fleet/": "fleet/", "web": "", "": ""} {
		cluster := &v1alpha2.PediaCluster{ObjectMeta: metav1.ObjectMeta{
			Name: "evil", Annotations: map[string]string{v1alpha2.PartyAnnotation: annotation},
		}}
		assert.Equal(t, want, partyOf(cluster), "%q", annotation)
	}
}
