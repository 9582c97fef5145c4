// Copyright The Tripod Authors.
// SPDX-License-Identifier: Apache-2.0

package ha

import (
	"context"
	"fmt"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	corev1 "k8s.io/api/core/v1"
	policyv1 "k8s.io/api/policy/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"

	"github.com/tripod-k8s/tripod/e2e/progress"
	"github.com/tripod-k8s/tripod/e2e/release"
	"github.com/tripod-k8s/tripod/test/framework"
	"github.com/tripod-k8s/tripod/test/framework/traffic"
)

const (
	controllerManager = "controller-manager"
	scheduler         = "scheduler"
)

// replicas are the pods of the preset.
var replicas = map[string]int{
	release.Etcd: members, release.Core: 2, release.Extensions: 2, release.Aggregator: 2, controllerManager: 2, scheduler: 2,
}

func pods(t *testing.T, component string) []corev1.Pod {
	t.Helper()
	found, err := tripod.Pods(t.Context(), component)
	require.NoError(t, err)
	return found
}

// TestAllRunOnOneNode expects that pods which should be spread need not be, and that evictions may take one of each at a time.
func TestAllRunOnOneNode(t *testing.T) {
	for component, want := range replicas {
		all := pods(t, component)
		assert.Len(t, all, want, component)
		for _, pod := range all {
			assert.NotEmpty(t, pod.Spec.TopologySpreadConstraints, "%s is not spread over nodes", pod.Name)
		}
	}
	budgets, err := tripod.Host.Client.PolicyV1().PodDisruptionBudgets(tripod.Namespace).List(t.Context(), metav1.ListOptions{})
	require.NoError(t, err)
	assert.Len(t, budgets.Items, len(replicas))
}

// TestOneOfEachIsEvicted evicts each member of etcd, one replica of each service, and the controllers that work, while clients go on.
func TestOneOfEachIsEvicted(t *testing.T) {
	for i := range members {
		t.Run(fmt.Sprintf("member %d of etcd", i), func(t *testing.T) { underRequests(t, release.Etcd, i) })
	}
	for _, service := range release.Services {
		t.Run(service, func(t *testing.T) { underRequests(t, service, 0) })
	}
	for _, controller := range []string{controllerManager, scheduler} {
		t.Run(controller, func(t *testing.T) { handsOver(t, controller) })
	}
}

// underRequests evicts a pod while clients use Tripod. No request fails, and no watch misses an event. Only the eviction of etcd's leader fails
// writes that were on their way to it.
func underRequests(t *testing.T, component string, i int) {
	clients := traffic.Start(t, traffic.Options{Customs: customs, Rate: 40, Workers: 20, Watchers: 40}, tripod.Admin())
	clients.Progress(t, 100)
	name := pods(t, component)[i].Name
	leads := false // when it is evicted: until then, another member may take over
	evict(t, component, name, func(ctx context.Context) (err error) {
		if component == release.Etcd {
			leads, err = tripod.Leads(ctx, name)
		}
		return err
	})
	clients.Progress(t, 200)
	clients.Finish(t)
	if leads {
		t.Logf("%d writes were on their way to the leader and failed", clients.FailsOnlyWrites(t, release.LostItsLeader))
	} else {
		clients.FailsNever(t)
	}
	clients.WatchesAreWell(t, false)
	clients.SawAll(t)
}

// evict evicts a pod, expects that no second one may go meanwhile, and returns when the component has all of its pods. It calls look just
// before each attempt.
func evict(t *testing.T, component, name string, look func(context.Context) error) {
	t.Helper()
	require.NoError(t, progress.Step("evict "+name, func() error {
		ready := func(ctx context.Context) error { return isReady(ctx, component) }
		if err := framework.Poll(t.Context(), component+" is ready", ready); err != nil {
			return err
		}
		before := pods(t, component)
		// Budgets follow pods a moment later.
		evicted := func(ctx context.Context) error {
			if err := look(ctx); err != nil {
				return err
			}
			return tripod.Host.Client.CoreV1().Pods(tripod.Namespace).EvictV1(ctx, &policyv1.Eviction{ObjectMeta: metav1.ObjectMeta{Name: name}})
		}
		if err := framework.Poll(t.Context(), "the budget allows it", evicted); err != nil {
			return err
		}
		for _, other := range before { // the new pod may be evicted until it is ready
			if other.Name == name {
				continue
			}
			err := tripod.Host.Client.CoreV1().Pods(tripod.Namespace).EvictV1(t.Context(), &policyv1.Eviction{
				ObjectMeta: metav1.ObjectMeta{Name: other.Name}, DeleteOptions: &metav1.DeleteOptions{DryRun: []string{metav1.DryRunAll}},
			})
			if isReady(t.Context(), component) != nil && !apierrors.IsTooManyRequests(err) {
				return fmt.Errorf("%s could be evicted, too: %v", other.Name, err) //nolint:errorlint // it may be nil
			}
		}
		return framework.Poll(t.Context(), component+" is ready again", ready)
	}))
}

// isReady returns an error unless all pods of a component are ready, and no other pod is left.
func isReady(ctx context.Context, component string) error {
	all, err := tripod.AllPods(ctx, component)
	if err != nil {
		return err
	}
	ready := 0
	for _, pod := range all {
		for _, condition := range pod.Status.Conditions {
			if condition.Type == corev1.PodReady && condition.Status == corev1.ConditionTrue && pod.DeletionTimestamp == nil {
				ready++
			}
		}
	}
	if ready != replicas[component] || len(all) != ready {
		return fmt.Errorf("%d of %d pods are ready, and there are %d", ready, replicas[component], len(all))
	}
	return nil
}

// handsOver evicts the replica of a controller that works. Another one takes over.
func handsOver(t *testing.T, component string) {
	client, err := kubernetes.NewForConfig(tripod.Admin())
	require.NoError(t, err)
	worker := func(ctx context.Context) (string, error) {
		lease, err := client.CoordinationV1().Leases("kube-system").Get(ctx, "kube-"+component, metav1.GetOptions{})
		if err != nil || lease.Spec.HolderIdentity == nil {
			return "", err
		}
		name, _, _ := strings.Cut(*lease.Spec.HolderIdentity, "_")
		return name, nil
	}
	var before string
	framework.Eventually(t, "one works", func(ctx context.Context) (err error) {
		if before, err = worker(ctx); err == nil && before == "" {
			err = fmt.Errorf("none works")
		}
		return err
	})
	evict(t, component, before, func(context.Context) error { return nil })
	framework.Eventually(t, "another one works", func(ctx context.Context) error {
		now, err := worker(ctx)
		if err == nil && (now == before || now == "") {
			err = fmt.Errorf("%q holds the Lease", now)
		}
		return err
	})
	if component == controllerManager {
		removesNamespaces(t, client)
	}
}

// removesNamespaces expects that kube-controller-manager works.
func removesNamespaces(t *testing.T, client kubernetes.Interface) {
	t.Helper()
	name := framework.UniqueName("passing")
	namespace := &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: name}}
	_, err := client.CoreV1().Namespaces().Create(t.Context(), namespace, metav1.CreateOptions{})
	require.NoError(t, err)
	require.NoError(t, client.CoreV1().Namespaces().Delete(t.Context(), name, metav1.DeleteOptions{}))
	framework.Eventually(t, "a deleted namespace disappears", func(ctx context.Context) error {
		_, err := client.CoreV1().Namespaces().Get(ctx, name, metav1.GetOptions{})
		if apierrors.IsNotFound(err) {
			return nil
		}
		return fmt.Errorf("it is there: %v", err) //nolint:errorlint // it may be nil
	})
}
