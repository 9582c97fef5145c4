// Copyright The Tripod Authors.
// SPDX-License-Identifier: Apache-2.0

package main

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
		case searchPath + "/apis":
			fmt.Fprint(w, `{"kind": "APIGroupList", "groups": [{"name": "apps", "versions": [{"groupVersion": "apps/v1", "version": "v1"}], "preferredVersion": {"groupVersion": "apps/v1", "version": "v1"}}]}`)
		case searchPath + "/apis/apps/v1":
			fmt.Fprint(w, `{"kind": "APIResourceList", "groupVersion": "apps/v1", "resources": [
{"name": "deployments", "singularName": "deployment", "kind": "Deployment", "namespaced": true, "shortNames": ["deploy"], "verbs": ["list"]},
{"name": "replicasets", "singularName": "replicaset", "kind": "ReplicaSet", "namespaced": true, "verbs": ["list"]}]}`)
		case searchPath + "/api":
			fmt.Fprint(w, `{"kind": "APIVersions", "versions": []}`)
		default:
			http.NotFound(w, req)
		}
	}))
	defer server.Close()
	d := difference{Question: diff.Question{Cluster: allClusters}, since: time.Minute, owner: "deploy/web"}
	deployments := schema.GroupResource{Group: "apps", Resource: "deployments"}
	require.NoError(t, d.complete(&rest.Config{Host: server.URL}, []string{"deploy,replicaset", "deployments.apps"}))
	assert.Equal(t, []schema.GroupResource{deployments, {Group: "apps", Resource: "replicasets"}, deployments}, d.Resources)
	assert.Equal(t, deployments, d.OwnerResource)
	assert.Empty(t, d.Cluster)
	from, err := time.Parse(time.RFC3339, d.From)
	require.NoError(t, err)
	assert.WithinDuration(t, time.Now().Add(-time.Minute), from, time.Minute)
	require.ErrorContains(t, d.complete(&rest.Config{Host: server.URL}, []string{"boats"}), "search has no resource boats")
}

func TestSearchDiffRefusesWhatCannotBeMeant(t *testing.T) {
	for want, args := range map[string][]string{
		"write summary, diff or json": {"-o", "yaml"},
		"none of the others can be":   {"--since", "1m", "--from", "5m"},
	} {
		cmd := newSearchDiffCommand()
		cmd.SetArgs(args)
		require.ErrorContains(t, cmd.ExecuteContext(t.Context()), want)
	}
	d := difference{}
	require.ErrorContains(t, d.complete(&rest.Config{}, nil), "write a duration")
}
