// Copyright The Tripod Authors.
// SPDX-License-Identifier: Apache-2.0

package search

import (
	"fmt"
	"net/http"
	"net/http/httptest"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/rest"

	"github.com/tripod-k8s/tripod/services/search/diff"
)

func TestSearchDiffFindsTheResourcesOfSearch(t *testing.T) {
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, req *http.Request) {
		w.Header().Set("Content-Type", "application/json")
		switch req.URL.Path {
		case Path + "/apis":
			fmt.Fprint(w, `{"kind": "APIGroupList", "groups": [{"name": "apps", "versions": [{"groupVersion": "apps/v1", "version": "v1"}], "preferredVersion": {"groupVersion": "apps/v1", "version": "v1"}}]}`)
		case Path + "/apis/apps/v1":
			fmt.Fprint(w, `{"kind": "APIResourceList", "groupVersion": "apps/v1", "resources": [
{"name": "deployments", "singularName": "deployment", "kind": "Deployment", "namespaced": true, "shortNames": ["deploy"], "verbs": ["list"]},
{"name": "replicasets", "singularName": "replicaset", "kind": "ReplicaSet", "namespaced": true, "verbs": ["list"]}]}`)
		case Path + "/api":
			fmt.Fprint(w, `{"kind": "APIVersions", "versions": []}`)
		default:
			http.NotFound(w, req)
		}
	}))
	defer server.Close()
	d := Difference{Question: diff.Question{Cluster: AllClusters}, Since: time.Minute, OwnedBy: "deploy/web"}
	deployments := schema.GroupResource{Group: "apps", Resource: "deployments"}
	require.NoError(t, d.Complete(&rest.Config{Host: server.URL}, []string{"deploy,replicaset", "deployments.apps"}))
	assert.Equal(t, []schema.GroupResource{deployments, {Group: "apps", Resource: "replicasets"}, deployments}, d.Resources)
	assert.Equal(t, deployments, d.OwnerResource)
	assert.Empty(t, d.Cluster)
	from, err := time.Parse(time.RFC3339, d.From)
	require.NoError(t, err)
	assert.WithinDuration(t, time.Now().Add(-time.Minute), from, time.Minute)
	require.ErrorContains(t, d.Complete(&rest.Config{Host: server.URL}, []string{"boats"}), "search has no resource boats")
}

func TestADifferenceNeedsAMoment(t *testing.T) {
	d := Difference{}
	require.ErrorContains(t, d.Complete(&rest.Config{}, nil), "write a duration")
}
