// Copyright The Tripod Authors.
// SPDX-License-Identifier: Apache-2.0

package e2e

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"testing"

	"github.com/stretchr/testify/require"

	corev1 "k8s.io/api/core/v1"

	"github.com/tripod-k8s/tripod/e2e/progress"
	"github.com/tripod-k8s/tripod/e2e/release"
	"github.com/tripod-k8s/tripod/test/framework"
	"github.com/tripod-k8s/tripod/test/framework/traffic"
)

// TestScale scales each service on its own with kubectl while clients go on.
func TestScale(t *testing.T) {
	r := shared(t)
	for _, service := range release.Services {
		t.Run(service, func(t *testing.T) {
			before := othersThan(t, r, service)
			clients := load(t, r)
			progress.Require(t, service+" has 3 replicas", func() error { return r.Scale(t.Context(), service, 3) })
			progress.Require(t, "requests are spread over them", func() error { return spread(t, r, service, 3) })
			clients.Progress(t, 500)
			progress.Require(t, service+" has 1 replica", func() error { return r.Scale(t.Context(), service, 1) })
			clients.Progress(t, 500)
			unharmed(t, clients)
			if after := othersThan(t, r, service); !maps.Equal(before, after) {
				t.Errorf("pods of other components changed: they were %v and are now %v", before, after)
			}
		})
	}
}

// othersThan describes the pods of all components except service.
func othersThan(t testing.TB, r *release.Release, service string) map[string]string {
	t.Helper()
	all := map[string]string{}
	for _, component := range append([]string{release.Etcd}, release.Services...) {
		if component == service {
			continue
		}
		pods, err := r.AllPods(t.Context(), component)
		require.NoError(t, err)
		for _, pod := range pods {
			all[pod.Name] = fmt.Sprintf("generation %d, restarts %d", pod.Generation, restarts(&pod))
		}
	}
	return all
}

func restarts(pod *corev1.Pod) int32 {
	n := int32(0)
	for _, c := range pod.Status.ContainerStatuses {
		n += c.RestartCount
	}
	return n
}

// enough is the number of requests that show that a replica gets its share.
const enough = 20

// spread returns when each replica of a service has served enough new requests. The clients of the test keep their connections, so spread
// opens new ones, which reach every aggregator.
func spread(t testing.TB, r *release.Release, service string, replicas int) error {
	pods, err := r.Pods(t.Context(), service)
	if err != nil {
		return err
	}
	if len(pods) != replicas {
		return fmt.Errorf("%d pods of %s, want %d", len(pods), service, replicas)
	}
	first := map[string]float64{}
	err = framework.Poll(t.Context(), "the aggregator has found all replicas", func(ctx context.Context) (err error) {
		for _, pod := range pods {
			if first[pod.Name], err = served(ctx, r, service, &pod); err != nil {
				return err
			}
		}
		return nil
	})
	if err != nil {
		return err
	}
	return framework.Poll(t.Context(), "all replicas serve requests", func(ctx context.Context) error {
		newcomers := traffic.NewClient(t, r.Admin(), 3*replicas)
		for range enough * replicas {
			newcomers.Need(t, "GET", traffic.ConfigMaps.Collection("default"), nil)
		}
		had := map[string]float64{}
		for _, pod := range pods {
			now, err := served(ctx, r, service, &pod)
			if err != nil {
				return err
			}
			had[pod.Name] = now - first[pod.Name]
		}
		t.Logf("new requests by replica: %v", had)
		if slices.Min(slices.Collect(maps.Values(had))) < enough {
			return fmt.Errorf("new requests by replica: %v", had)
		}
		return nil
	})
}

// served returns how many requests a replica has served. For an aggregator these are the requests that it forwarded to backends.
func served(ctx context.Context, r *release.Release, service string, pod *corev1.Pod) (float64, error) {
	switch service {
	case release.Aggregator:
		return r.Metric(ctx, service, pod, "tripod_backend_requests_total")
	case release.Extensions:
		return r.Metric(ctx, service, pod, "apiserver_request_total", "group=example.com")
	default:
		return r.Metric(ctx, service, pod, "apiserver_request_total", "resource=configmaps")
	}
}
