// Copyright The Tripod Authors.
// SPDX-License-Identifier: Apache-2.0

package faults

import (
	"net/http"
	"strconv"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/tripod-k8s/tripod/e2e/progress"
	"github.com/tripod-k8s/tripod/e2e/release"
	"github.com/tripod-k8s/tripod/test/framework/traffic"
)

// TestServiceAway stops all replicas of a backend. Requests to the other backend succeed as before. Requests to the stopped backend return
// 503, not 404.
func TestServiceAway(t *testing.T) {
	t.Run("extensions", func(t *testing.T) {
		settled(t)
		clients := traffic.Start(t, traffic.Options{Rate: 40, Workers: 20, Watchers: 20}, tripod.Admin())
		clients.Progress(t, 50)
		away(t, release.Extensions, customs[0].Collection("default"), func() {
			discoveryKnowsCustoms(t)
			clients.Progress(t, 200)
		})
		clients.Progress(t, 50)
		clients.Finish(t)
		clients.FailsNever(t)
		clients.WatchesAreWell(t, false)
		clients.SawAll(t)
	})
	t.Run("core", func(t *testing.T) {
		settled(t)
		keep(t, customs[0])
		client := traffic.NewClient(t, tripod.Admin(), 1)
		away(t, release.Core, traffic.ConfigMaps.Collection("default"), func() {
			for i := range 20 {
				path := customs[0].Path("default", "keep")
				version := client.Need(t, http.MethodGet, path, nil).Metadata.ResourceVersion
				client.Need(t, http.MethodPut, path, customs[0].Object("keep", strconv.Itoa(i), version))
			}
		})
	})
}

// away stops all replicas of a service, expects 503 for one of its paths, calls a function, and starts the replicas again.
func away(t *testing.T, service, path string, meanwhile func()) {
	t.Helper()
	scale := func(n int) {
		require.NoError(t, progress.Step("kubectl scale "+service, func() error { return tripod.Scale(t.Context(), service, n) }))
	}
	scale(0)
	defer func() {
		scale(replicas)
		settled(t)
	}()
	answer := awaitAnswer(t, service+" is reported unavailable", path, http.StatusServiceUnavailable)
	if answer.Header.Get("Retry-After") == "" {
		t.Errorf("no Retry-After beside %s", answer.Body)
	}
	meanwhile()
}
