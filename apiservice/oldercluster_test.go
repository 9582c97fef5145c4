// Copyright The Tripod Authors.
// SPDX-License-Identifier: Apache-2.0

package apiservice

import (
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	genericoptions "k8s.io/apiserver/pkg/server/options"
	"k8s.io/client-go/discovery/fake"
	clienttesting "k8s.io/client-go/testing"
)

func TestNobodyWaitsForPoliciesThatTheClusterDoesNotServe(t *testing.T) {
	for name, test := range map[string]struct{ served, disabled []string }{
		"as new as this program": {[]string{"mutatingadmissionpolicies", "validatingadmissionpolicies"}, nil},
		"1.35":                   {[]string{"validatingadmissionpolicies"}, []string{"MutatingAdmissionPolicy"}},
	} {
		t.Run(name, func(t *testing.T) {
			list := &metav1.APIResourceList{GroupVersion: "admissionregistration.k8s.io/v1"}
			for _, resource := range test.served {
				list.APIResources = append(list.APIResources, metav1.APIResource{Name: resource})
			}
			cluster := &fake.FakeDiscovery{Fake: &clienttesting.Fake{Resources: []*metav1.APIResourceList{list}}}
			o := genericoptions.NewAdmissionOptions()
			require.NoError(t, disableUnserved(cluster, o))
			assert.Equal(t, test.disabled, o.DisablePlugins)
		})
	}
	unknown := &fake.FakeDiscovery{Fake: &clienttesting.Fake{}}
	assert.ErrorContains(t, disableUnserved(unknown, genericoptions.NewAdmissionOptions()), "what admissionregistration.k8s.io/v1 has in the cluster")
}
