// Copyright The Tripod Authors.
// SPDX-License-Identifier: Apache-2.0

package dataplane

import (
	"context"
	"fmt"
	"math"
	"net/http"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/tripod-k8s/tripod/test/framework"
	"github.com/tripod-k8s/tripod/test/framework/traffic"
)

// visible is how many requests a replica must have had until its share is looked at.
const visible = 20

func TestScalingIsNotNoticed(t *testing.T) {
	tripod, err := framework.ForTest(t).StartTripod(t.Context(), framework.TripodOptions{
		Args: []string{"--core-replicas=2", "--extensions-replicas=2", "--aggregator-replicas=2", "--lb"},
	})
	require.NoError(t, err)
	require.NoError(t, tripod.Create(t.Context(), traffic.Definitions(traffic.Customs)))
	tr := traffic.Start(t, traffic.Options{Customs: traffic.Customs}, tripod.Admin())
	for _, step := range []struct {
		service  string
		replicas int
	}{
		{"core", 1}, {"extensions", 1}, {"aggregator", 1}, {"aggregator", 2}, {"extensions", 2}, {"core", 2},
	} {
		began := time.Now()
		require.NoError(t, tripod.Scale(t.Context(), step.service, step.replicas))
		measured(t, fmt.Sprintf("%s-has-%d", step.service, step.replicas), time.Since(began))
		awaitShares(t, tripod, step.service, step.replicas)
	}
	tr.Finish(t)
	tr.FailsNever(t)
	tr.WatchesAreWell(t, false)
	tr.SawAll(t)
}

// awaitShares returns when `tripod status` shows that each replica of a service has a share of the requests. Clients who
// come now go to every aggregator.
func awaitShares(t testing.TB, tripod *framework.Tripod, service string, replicas int) {
	t.Helper()
	framework.Eventually(t, fmt.Sprintf("there are %d replicas of %s with shares", replicas, service), func(ctx context.Context) error {
		newcomers := traffic.NewClient(t, tripod.Cluster.Admin(), replicas)
		for range visible * replicas {
			newcomers.Need(t, http.MethodGet, traffic.ConfigMaps.Collection("default"), nil)
		}
		all, err := tripod.Replicas(ctx, service)
		if err != nil {
			return err
		}
		shares, err := sharesOf(all, replicas)
		if err == nil {
			t.Logf("shares of %s: %.3f", service, shares)
		}
		return err
	})
}

// sharesOf expects that there are so many replicas and that all have a share, and returns these.
func sharesOf(all []framework.ComponentStatus, replicas int) ([]float64, error) {
	if len(all) != replicas {
		return nil, fmt.Errorf("there are %d replicas: %+v", len(all), all)
	}
	shares, sum := []float64{}, 0.0
	for _, r := range all {
		if !r.Ready || r.Share == nil || *r.Requests < visible {
			return nil, fmt.Errorf("%s has too few requests: %+v", r.Replica, r)
		}
		shares = append(shares, *r.Share)
		sum += *r.Share
	}
	if math.Abs(sum-1) > 0.01 {
		return nil, fmt.Errorf("the shares make %.2f together: %.3f", sum, shares)
	}
	return shares, nil
}
