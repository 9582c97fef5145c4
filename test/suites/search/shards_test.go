// Copyright The Tripod Authors.
// SPDX-License-Identifier: Apache-2.0

package search

import (
	"context"
	"fmt"
	"path/filepath"
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/tripod-k8s/tripod/test/framework"
)

// TestReplicasShareTheCopying has two replicas copy their cluster, kills one of them, and starts it again.
func TestReplicasShareTheCopying(t *testing.T) {
	t.Parallel()
	binary, database := environment.Binary("tripod-search"), "--database=sqlite:"+filepath.Join(t.TempDir(), "search.db")
	shared := framework.NewFleet(t, framework.FleetOptions{Replicas: []framework.ReplicaOptions{
		{Name: "core-0", Args: []string{"--disable-admission-plugins=ServiceAccount"}}, {Name: "extensions-0"}, {Name: "aggregator-0"},
		{Name: "search-0", Binary: binary, Args: []string{database, "--member-allow=loopback"}}, {Name: "search-1", Binary: binary, Args: []string{database, "--member-allow=loopback"}},
	}})
	// awaitStreams returns when these replicas copy all resources, and each of them some.
	awaitStreams := func(replicas ...string) {
		t.Helper()
		framework.Eventually(t, fmt.Sprintf("all resources are copied by %v", replicas), func(ctx context.Context) error {
			all, err := shared.Metric(ctx, "search-0", "tripod_search_cluster_resources", "state=complete")
			if err != nil {
				return err
			}
			var sum float64
			var each []float64
			for _, replica := range replicas {
				streams, err := shared.Metric(ctx, replica, "tripod_search_streams")
				if err != nil {
					return err
				}
				each = append(each, streams)
				sum += streams
			}
			if sum < 10 || sum != all || slices.Contains(each, 0) {
				return fmt.Errorf("they copy %v, and %v resources are complete", each, all)
			}
			return nil
		})
	}
	// awaitCopy returns when search has the new object of each of some resources: those of a replica that is gone, too.
	awaitCopy := func(name string) {
		t.Helper()
		for _, kind := range []string{"ConfigMap", "LimitRange", "ServiceAccount", "Endpoints", "ResourceQuota"} {
			require.NoError(t, shared.Create(t.Context(), fmt.Sprintf("{apiVersion: v1, kind: %s, metadata: {name: %s, namespace: default}}", kind, name)))
		}
		for _, resource := range []string{"configmaps", "limitranges", "serviceaccounts", "endpoints", "resourcequotas"} {
			framework.Eventually(t, resource+" "+name, func(ctx context.Context) error {
				names, err := get(ctx, shared.Admin(), hub+"/api/v1/namespaces/default/"+resource+"?names="+name)
				if err == nil && len(names) != 1 {
					err = fmt.Errorf("got %q", names)
				}
				return err
			})
		}
	}
	awaitStreams("search-0", "search-1")
	awaitCopy("both")

	began := time.Now()
	require.NoError(t, shared.Replica("search-1").Kill())
	awaitCopy("one")
	awaitStreams("search-0")
	t.Logf("the other replica has taken over after %s", time.Since(began).Round(100*time.Millisecond))

	require.NoError(t, shared.Replica("search-1").Start())
	require.NoError(t, shared.Replica("search-1").WaitReady(t.Context()))
	awaitStreams("search-0", "search-1")
	awaitCopy("again")
}
