// Copyright The Tripod Authors.
// SPDX-License-Identifier: Apache-2.0

package crd

import (
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"k8s.io/client-go/tools/cache"
	apiregistrationv1 "k8s.io/kube-aggregator/pkg/apis/apiregistration/v1"
)

func TestTheHashIsThatOfWhatClientsGet(t *testing.T) {
	sum := func(objects ...string) string {
		all := map[cache.ObjectName]state{}
		for _, text := range objects {
			name, is, err := stateOf([]byte(text))
			require.NoError(t, err)
			all[name] = is
		}
		return checksum(all)
	}
	const a, b = `{"metadata": {"name": "a", "uid": "1", "resourceVersion": "1"}, "spec": {"size": 1}}`, `{"metadata": {"name": "b"}}`
	same := sum(a, b)
	assert.Equal(t, same, sum(b, a), "in another order")
	assert.Equal(t, same, sum(`{"spec": {"size": 1.0, "more": {}}, "status": null, "metadata": {"uid": "1", "name": "a", "resourceVersion": "2"}}`, b))
	for _, other := range []string{
		`{"metadata": {"name": "a", "uid": "2"}, "spec": {"size": 1}}`, `{"metadata": {"name": "a", "uid": "1"}, "spec": {"size": 2}}`,
		`{"metadata": {"name": "a", "uid": "1"}, "spec": {}}`, `{"metadata": {"name": "a", "namespace": "n", "uid": "1"}, "spec": {"size": 1}}`,
	} {
		assert.NotEqual(t, same, sum(other, b), other)
	}
	assert.NotEqual(t, same, sum(a), "one is missing")
}

func TestAnAPIServiceNamesItsOwnerAndWhoElseClaimsIt(t *testing.T) {
	service := &apiregistrationv1.APIService{}
	assert.Equal(t, "extensions", ownerOf(service))
	for of, want := range map[apiregistrationv1.ServiceReference]string{
		{Namespace: "tripod-system", Name: "extensions"}:     "extensions",
		{Namespace: "tripod-system", Name: "extensions-big"}: "extensions",
		{Namespace: "tripod-system", Name: "books"}:          "books",
		{Namespace: "default", Name: "books"}:                "default/books",
	} {
		service.Spec.Service = &of
		assert.Equal(t, want, ownerOf(service))
	}
	assert.False(t, claims(service, "books"))
	service.Status.Conditions = []apiregistrationv1.APIServiceCondition{{
		Type: claimed, Status: apiregistrationv1.ConditionTrue,
		Message: "extensions serves a/v1, which is also claimed by films and books; requests go to extensions",
	}}
	assert.True(t, claims(service, "books") && claims(service, "films"))
	assert.False(t, claims(service, "extensions"))
}
