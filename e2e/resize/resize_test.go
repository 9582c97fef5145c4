// Copyright The Tripod Authors.
// SPDX-License-Identifier: Apache-2.0

package resize

import (
	"fmt"
	"strconv"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/tripod-k8s/tripod/e2e/progress"
	"github.com/tripod-k8s/tripod/e2e/release"
	"github.com/tripod-k8s/tripod/test/framework/traffic"
)

// TestEtcdGrowsAndShrinksWhileClientsGoOn changes the members from one to three and back, each time by the command, and then by Helm, which
// has nothing to change. No request may fail but writes on their way to a leader that hands over.
func TestEtcdGrowsAndShrinksWhileClientsGoOn(t *testing.T) {
	first := startOf(t, 0)
	assert.ErrorContains(t, upgrade(t, members), "first run `tripod etcd resize tripod --namespace tripod-system --members 3`")
	planned, err := tripod.HostTripod(t.Context(), "etcd", "resize", tripod.Name, "--members", "3", "--dry-run")
	require.NoError(t, err)
	assert.Contains(t, planned, "tripod-etcd-2 would join as a learner")

	clients := traffic.Start(t, traffic.Options{Customs: customs, Rate: 40, Workers: 20, Watchers: 40, Long: true}, tripod.Admin())
	clients.Progress(t, 100)
	for _, n := range []int{members, 1} {
		progress.Require(t, fmt.Sprintf("etcd gets %d members", n), func() error {
			_, err := tripod.HostTripod(t.Context(), "etcd", "resize", tripod.Name, "--members", strconv.Itoa(n))
			return err
		})
		hasMembers(t, n)
		clients.Progress(t, 200)
		before := templates(t)
		progress.Require(t, "helm has nothing to change", func() error { return upgrade(t, n) })
		assert.Equal(t, before, templates(t))
		clients.Progress(t, 200)
	}
	clients.Finish(t)
	failed := clients.FailsOnlyWrites(t, release.LostItsLeader)
	t.Logf("%d writes were on their way to a leader that handed over, and failed", failed)
	clients.WatchesAreWell(t, false)
	clients.SawAll(t)
	assert.Equal(t, first, startOf(t, 0), "the first member has started again")
}

func upgrade(t *testing.T, n int) error {
	t.Helper()
	return tripod.Upgrade(t.Context(), release.Values{"etcd": release.Values{"replicas": n}})
}

// hasMembers expects that pods, volumes and services are those of so many members.
func hasMembers(t *testing.T, n int) {
	t.Helper()
	pods, err := tripod.AllPods(t.Context(), release.Etcd)
	require.NoError(t, err)
	assert.Len(t, pods, n)
	claims, err := tripod.Host.Client.CoreV1().PersistentVolumeClaims(tripod.Namespace).List(t.Context(), metav1.ListOptions{})
	require.NoError(t, err)
	assert.Len(t, claims.Items, n)
	for _, service := range release.Services {
		d, err := tripod.Deployment(t.Context(), service)
		require.NoError(t, err)
		args := strings.Join(d.Spec.Template.Spec.Containers[0].Args, " ")
		assert.Equal(t, n, strings.Count(args, "https://tripod-etcd-"), "%s: %s", service, args)
	}
}

// templates returns the generations of what an upgrade without changes must leave alone, by names. A new one restarts pods.
func templates(t *testing.T) map[string]int64 {
	t.Helper()
	found := map[string]int64{}
	sets, err := tripod.Host.Client.AppsV1().StatefulSets(tripod.Namespace).List(t.Context(), metav1.ListOptions{})
	require.NoError(t, err)
	for _, set := range sets.Items {
		found[set.Name+" "+string(set.UID)] = set.Generation
	}
	for _, service := range release.Services {
		d, err := tripod.Deployment(t.Context(), service)
		require.NoError(t, err)
		found[d.Name] = d.Generation
	}
	return found
}

// startOf returns the UID of a member's pod and how often it has restarted.
func startOf(t *testing.T, ordinal int) string {
	t.Helper()
	name := fmt.Sprintf("tripod-etcd-%d", ordinal)
	pod, err := tripod.Host.Client.CoreV1().Pods(tripod.Namespace).Get(t.Context(), name, metav1.GetOptions{})
	require.NoError(t, err)
	return fmt.Sprintf("%s, %d restarts", pod.UID, pod.Status.ContainerStatuses[0].RestartCount)
}
