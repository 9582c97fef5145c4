// Copyright The Tripod Authors.
// SPDX-License-Identifier: Apache-2.0

package e2e

import (
	"errors"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/tripod-k8s/tripod/e2e/progress"
	"github.com/tripod-k8s/tripod/e2e/release"
)

// TestRoll changes a value of the chart, which rolls all services, while clients go on.
func TestRoll(t *testing.T) {
	r := shared(t)
	before := map[string]bool{}
	for _, service := range release.Services {
		for _, name := range podNames(t, r, service) {
			before[name] = true
		}
	}
	etcd := othersThan(t, r, "")
	clients := load(t, r)
	progress.Require(t, "helm upgrades the release", func() error {
		return r.Upgrade(t.Context(), release.Values{"logging": release.Values{"verbosity": 3}})
	})
	progress.Require(t, "the old pods are gone", func() error {
		var errs []error
		for _, service := range release.Services {
			errs = append(errs, r.Settled(t.Context(), service))
		}
		return errors.Join(errs...)
	})
	clients.Progress(t, 500)
	unharmed(t, clients)
	for _, service := range release.Services {
		for _, name := range podNames(t, r, service) {
			assert.False(t, before[name], "%s is still there", name)
		}
	}
	for _, name := range podNames(t, r, release.Etcd) {
		if was, is := etcd[name], othersThan(t, r, "")[name]; was != is {
			t.Errorf("%s was %q and is now %q", name, was, is)
		}
	}
}

func podNames(t testing.TB, r *release.Release, component string) []string {
	t.Helper()
	pods, err := r.AllPods(t.Context(), component)
	require.NoError(t, err)
	var names []string
	for _, pod := range pods {
		names = append(names, pod.Name)
	}
	return names
}
