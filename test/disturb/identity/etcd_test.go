// Copyright The Tripod Authors.
// SPDX-License-Identifier: Apache-2.0

package identity

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"k8s.io/client-go/rest"

	"github.com/tripod-k8s/tripod/test/framework"
)

// startCores starts two replicas of core, each with a gateway to etcd, and one of the other services.
func startCores(t *testing.T, env *framework.Environment) (*framework.Fleet, map[string]*framework.Gateway) {
	t.Helper()
	etcd, err := env.StartEtcd(t.Context(), env.Dir)
	require.NoError(t, err)
	gateways := map[string]*framework.Gateway{"core-0": env.NewGateway(t, etcd), "core-1": env.NewGateway(t, etcd)}
	fleet, err := env.StartFleet(t.Context(), framework.FleetOptions{EtcdURL: etcd, Replicas: []framework.ReplicaOptions{
		{Name: "core-0", EtcdURL: gateways["core-0"].URL()},
		{Name: "core-1", EtcdURL: gateways["core-1"].URL()},
		{Name: "extensions-0"},
		{Name: "aggregator-0", Args: []string{"--identity-grace=2s"}},
	}})
	require.NoError(t, err)
	return fleet, gateways
}

// followed returns the replica of core that the aggregator asks about tokens, and the other one.
func followed(t *testing.T, fleet *framework.Fleet) (is, other string) {
	t.Helper()
	is, other = "core-0", "core-1"
	framework.Eventually(t, "the aggregator follows one core", func(ctx context.Context) error {
		watchers, err := fleet.Metric(ctx, is, "tripod_identity_watchers")
		if err == nil && watchers != 1 {
			is, other = other, is
			err = fmt.Errorf("%s has %v watchers", is, watchers)
		}
		return err
	})
	return is, other
}

// extensions is a path that every authenticated user may read.
const extensions = "/apis/apiextensions.k8s.io/v1"

// A replica of core whose etcd is frozen observes no revocation.
func TestACoreWithoutEtcdIsNotAskedAboutTokens(t *testing.T) {
	t.Parallel()
	fleet, gateways := startCores(t, framework.ForTest(t))
	sick, well := followed(t, fleet)
	token, end := newToken(t, clientOf(t, fleet, well))
	robot := withToken(fleet, token)
	becomes(t, "a good token", robot, extensions, http.StatusOK)

	gateways[sick].Frozen.Lock()
	defer gateways[sick].Frozen.Unlock()
	end(clientOf(t, fleet, well))
	began := time.Now()
	becomes(t, "a token that was revoked", robot, extensions, http.StatusUnauthorized)
	t.Logf("a token is good for %s after the etcd of the core that is followed froze", time.Since(began).Round(100*time.Millisecond))
	fresh, _ := newToken(t, clientOf(t, fleet, well))
	unseen, _ := newToken(t, clientOf(t, fleet, well))
	becomes(t, "a good token, while one core is sick,", withToken(fleet, fresh), extensions, http.StatusOK)

	// Now no core observes changes. A question waits, and nothing opens. The stream goes on, because no other replica is better.
	follows := ofAggregator(t, fleet, "tripod_identity_client_follows_total")
	gateways[well].Frozen.Lock()
	framework.Eventually(t, "core waits for etcd", func(ctx context.Context) error {
		stalled, err := fleet.Metric(ctx, well, "tripod_identity_stalled")
		if err == nil && stalled == 0 {
			err = errors.New("it answers questions")
		}
		return err
	})
	asked := ofAggregator(t, fleet, "tripod_identity_client_cache_lookups_total", "result=miss")
	var code int
	var err error
	answered := make(chan struct{})
	go func() {
		defer close(answered)
		code, err = get(t.Context(), withToken(fleet, unseen), extensions)
	}()
	framework.Eventually(t, "the aggregator asks about the token", func(context.Context) error {
		if ofAggregator(t, fleet, "tripod_identity_client_cache_lookups_total", "result=miss") == asked {
			return errors.New("it was not asked about it")
		}
		return nil
	})
	becomes(t, "a certificate", fleet.Admin(), extensions, http.StatusOK)
	select {
	case <-answered:
		t.Fatalf("a token that nobody can judge gets %d, %v", code, err)
	default:
	}
	gateways[well].Frozen.Unlock()
	<-answered
	require.NoError(t, err)
	require.Equal(t, http.StatusOK, code, "a good token that waited for core")
	require.InDelta(t, follows, ofAggregator(t, fleet, "tripod_identity_client_follows_total"), 0, "streams to core")
}

func ofAggregator(t *testing.T, fleet *framework.Fleet, metric string, labels ...string) float64 {
	t.Helper()
	value, err := fleet.Metric(t.Context(), "aggregator-0", metric, labels...)
	require.NoError(t, err)
	return value
}

func withToken(fleet *framework.Fleet, token string) *rest.Config {
	config := fleet.Anonymous()
	config.BearerToken = token
	return config
}
