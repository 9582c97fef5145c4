// Copyright The Tripod Authors.
// SPDX-License-Identifier: Apache-2.0

package upgrade

import (
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/json"
)

func TestSamplesAreObjectsWithNames(t *testing.T) {
	samples, err := readSamples(t.Context(), "shop")
	require.NoError(t, err)
	for resource, sample := range samples {
		o := &unstructured.Unstructured{}
		require.NoError(t, json.Unmarshal([]byte(sample), &o.Object), resource)
		assert.NotEmpty(t, o.GetName(), resource)
	}
	for _, resource := range []schema.GroupVersionResource{
		{Version: "v1", Resource: "secrets"}, {Group: "apps", Version: "v1", Resource: "deployments"},
		{Group: "apiregistration.k8s.io", Version: "v1", Resource: "apiservices"},
	} {
		assert.Contains(t, samples, resource)
	}
	event := samples[schema.GroupVersionResource{Version: "v1", Resource: "events"}]
	assert.Contains(t, event, `{"namespace": "shop"}`, "the value of a variable")
}
