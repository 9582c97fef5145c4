// Copyright The Tripod Authors.
// SPDX-License-Identifier: Apache-2.0

package faults

import (
	"context"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	corev1 "k8s.io/api/core/v1"

	"github.com/tripod-k8s/tripod/e2e/progress"
	"github.com/tripod-k8s/tripod/e2e/release"
	"github.com/tripod-k8s/tripod/test/framework/traffic"
)

// fault breaks one of two replicas of a service from the node, as a failing machine would.
type fault struct {
	name string
	// harm causes the fault, and returns a function that ends it, or nil.
	harm func(*testing.T, *corev1.Pod) (heal func())
	// silent is set if connections to the replica stay open, so that no peer observes that it is gone.
	silent bool
}

var faultsOfReplicas = []fault{
	{name: "is killed", harm: kill},
	{name: "hangs", harm: pause, silent: true},
	{name: "is cut off", harm: cutOff, silent: true},
}

// TestReplicas breaks one replica of each backend in turn while clients go on. Only writes that were on their way to that replica may fail.
func TestReplicas(t *testing.T) {
	for _, service := range []string{release.Core, release.Extensions} {
		for _, f := range faultsOfReplicas {
			t.Run("a replica of "+service+" "+f.name, func(t *testing.T) { breakReplica(t, service, f) })
		}
	}
}

func breakReplica(t *testing.T, service string, f fault) {
	settled(t)
	pods, err := tripod.Pods(t.Context(), service)
	if err != nil || len(pods) < replicas {
		t.Fatalf("there are %d replicas of %s: %v", len(pods), service, err)
	}
	clients := load(t)
	clients.Progress(t, 100)
	began := time.Now()
	heal := f.harm(t, &pods[0])
	clients.Progress(t, 400)
	if heal != nil {
		heal()
	}
	settled(t)
	ended := time.Now()
	clients.Progress(t, 200)
	clients.Finish(t)
	failsOnlyWrites(t, clients, began, ended)
	clients.WatchesAreWell(t, true)
	clients.SawAll(t)
}

// failsOnlyWrites expects that only writes failed: with 502, during the fault, and at most one of each worker. The aggregator does not
// retry a write that may have been processed.
func failsOnlyWrites(t *testing.T, clients *traffic.Traffic, began, ended time.Time) {
	t.Helper()
	failed := clients.FailsOnlyWrites(t, func(f traffic.Failure) bool {
		return f.Ended.After(began) && f.Began.Before(ended) && f.Code == http.StatusBadGateway
	})
	t.Logf("%d writes were on their way to the replica and failed", failed)
}

// TestAggregator kills one of two aggregators. Clients that were connected to it lose that connection and reconnect. Other clients notice
// nothing.
func TestAggregator(t *testing.T) {
	settled(t)
	pods, err := tripod.Pods(t.Context(), release.Aggregator)
	if err != nil || len(pods) < replicas {
		t.Fatalf("there are %d aggregators: %v", len(pods), err)
	}
	clients := load(t)
	clients.Progress(t, 100)
	began := time.Now()
	kill(t, &pods[0])
	clients.Progress(t, 300)
	settled(t)
	ended := time.Now()
	clients.Progress(t, 200)
	clients.Finish(t)
	lost := 0
	for _, f := range clients.Failures() {
		if f.Code != 0 || f.Ended.Before(began) || f.Began.After(ended) {
			t.Error(f)
		}
		lost++
	}
	t.Logf("%d requests were lost with their connection", lost)
	clients.SawAll(t)
}

// kill kills the process of a pod, as the kernel does when memory runs out.
func kill(t *testing.T, pod *corev1.Pod) func() {
	signal(t, pod, "KILL")
	return nil
}

// pause stops the process of a pod without ending it.
func pause(t *testing.T, pod *corev1.Pod) func() {
	signal(t, pod, "STOP")
	// The kubelet notices too, and may have restarted the container.
	return func() { _ = trySignal(t.Context(), pod, "CONT") }
}

func signal(t *testing.T, pod *corev1.Pod, name string) {
	t.Helper()
	require.NoError(t, progress.Step(pod.Name+" gets "+name, func() error { return trySignal(t.Context(), pod, name) }))
}

// trySignal sends a signal to the first process of a pod's container.
func trySignal(ctx context.Context, pod *corev1.Pod, name string) error {
	_, id, _ := strings.Cut(pod.Status.ContainerStatuses[0].ContainerID, "://")
	_, err := tripod.Host.Exec(ctx, nil, "ctr", "--namespace=k8s.io", "tasks", "kill", "--signal", "SIG"+name, id)
	return err
}

// cutOff drops all packets between a pod and other pods. The kubelet is on the node and still reaches the pod.
func cutOff(t *testing.T, pod *corev1.Pod) func() {
	t.Helper()
	rules := [][]string{{"-s", pod.Status.PodIP}, {"-d", pod.Status.PodIP}}
	change := func(how string) {
		for _, rule := range rules {
			args := append([]string{"-w", how, "FORWARD"}, append(rule, "-j", "DROP")...)
			if _, err := tripod.Host.Exec(context.WithoutCancel(t.Context()), nil, "iptables", args...); err != nil {
				t.Error(err)
			}
		}
	}
	progress.Printf("%s is cut off", pod.Name)
	change("-I")
	return func() { change("-D") }
}
