// Copyright The Tripod Authors.
// SPDX-License-Identifier: Apache-2.0

package faults

import (
	"context"
	"errors"
	"net/http"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/tripod-k8s/tripod/e2e/environment"
	"github.com/tripod-k8s/tripod/e2e/release"
	"github.com/tripod-k8s/tripod/test/framework/traffic"
)

// replicas is the number of replicas of each service.
const replicas = 2

// tripod is the release that the tests share.
var tripod *release.Release

// customs has enough kinds that each replica of extensions serves some.
var customs = release.Customs(10)

func TestMain(m *testing.M) {
	environment.Main(m, "-faults", install, func(e *environment.Environment) error { return e.Collect(tripod) })
}

func install(ctx context.Context, e *environment.Environment) error {
	tripod = e.Release("tripod", "tripod-system")
	values, err := e.Values(ctx, environment.NodePort)
	if err != nil {
		return err
	}
	etcd := values["etcd"].(release.Values)
	etcd["mode"] = "perService"
	// What is measured here are clients of Tripod. Controllers would write beside them.
	values["controllerManager"] = release.Values{"enabled": false}
	for _, service := range release.Services {
		// With these requests all pods fit on a node of two processors, even while a Deployment rolls.
		values[service] = release.Values{"replicas": replicas, "resources": release.Values{"requests": release.Values{"cpu": "20m"}}}
	}
	err = errors.Join(e.Volume(ctx, "tripod-etcd"), e.Volume(ctx, "tripod-etcd-extensions"))
	if err == nil {
		err = tripod.Up(ctx, values)
	}
	if err == nil {
		err = tripod.Define(ctx, customs)
	}
	return err
}

// load starts clients that use ConfigMaps and custom resources.
func load(t *testing.T) *traffic.Traffic {
	t.Helper()
	return traffic.Start(t, traffic.Options{Customs: customs, Rate: 60, Workers: 40, Watchers: 60}, tripod.Admin())
}

// settled returns when each service has all its replicas and serves.
func settled(t *testing.T) {
	t.Helper()
	for _, service := range release.Services {
		require.NoError(t, tripod.Settled(t.Context(), service))
	}
	awaitAnswer(t, "core serves", traffic.ConfigMaps.Collection("default"), http.StatusOK)
	for _, custom := range customs {
		awaitAnswer(t, "extensions serves "+custom.Plural, custom.Collection("default"), http.StatusOK)
	}
}

// awaitAnswer returns the answer to a GET of path as soon as its status is code.
func awaitAnswer(t *testing.T, what, path string, code int) traffic.Answer {
	t.Helper()
	return traffic.NewClient(t, tripod.Admin(), 1).Await(t, what, path, code)
}
