// Copyright The Tripod Authors.
// SPDX-License-Identifier: Apache-2.0

package takeover

import (
	"context"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/tripod-k8s/tripod/test/framework"
	"github.com/tripod-k8s/tripod/test/framework/inventory"

	"github.com/tripod-k8s/tripod/e2e/controlplane"
)

const (
	namespace     = inventory.Namespace
	workloadImage = "tripod-e2e/workload:dev"
	readyTimeout  = 2 * time.Minute
)

// live adds workloads of all kinds that use the API, directly or not. The client pod requests the server pod by the name of its Service,
// over a new connection each time, and so depends on CoreDNS, kube-proxy and endpoints.
const live = inventory.Objects + `---
apiVersion: apps/v1
kind: Deployment
metadata: {name: server, namespace: takeover}
spec:
  replicas: 2
  selector: {matchLabels: {app: server}}
  template:
    metadata: {labels: {app: server}}
    spec:
      terminationGracePeriodSeconds: 1
      containers:
      - {name: server, image: "IMAGE", args: [serve], readinessProbe: {httpGet: {port: 8080}, periodSeconds: 1}}
---
apiVersion: v1
kind: Service
metadata: {name: server, namespace: takeover}
spec: {selector: {app: server}, ports: [{port: 80, targetPort: 8080}]}
---
apiVersion: apps/v1
kind: StatefulSet
metadata: {name: client, namespace: takeover}
spec:
  serviceName: client
  selector: {matchLabels: {app: client}}
  template:
    metadata: {labels: {app: client}}
    spec:
      serviceAccountName: client
      terminationGracePeriodSeconds: 1
      containers:
      - {name: client, image: "IMAGE", args: [probe, "http://server.takeover.svc.cluster.local/"], readinessProbe: {httpGet: {port: 8080}, periodSeconds: 1}}
---
apiVersion: policy/v1
kind: PodDisruptionBudget
metadata: {name: server, namespace: takeover}
spec: {minAvailable: 1, selector: {matchLabels: {app: server}}}
`

// create creates the objects of a manifest.
func (s *subject) create(t *testing.T, manifest string) {
	t.Helper()
	objects, err := framework.Decode(strings.ReplaceAll(manifest, "IMAGE", workloadImage))
	require.NoError(t, err)
	for _, object := range objects {
		s.eventually(t, readyTimeout, fmt.Sprintf("create %s %s", object.GetKind(), object.GetName()), func(ctx context.Context) error {
			err := framework.CreateObject(ctx, s.dynamic, object)
			if apierrors.IsAlreadyExists(err) { // as the answer to an earlier attempt was lost
				return nil
			}
			return err
		})
	}
}

// waitForDeployment returns when a Deployment has all its pods ready, and its Service an endpoint for each.
func (s *subject) waitForDeployment(t *testing.T, namespace, name string, replicas int32) {
	t.Helper()
	s.eventually(t, readyTimeout, "Deployment "+name+" is ready", func(ctx context.Context) error {
		deployment, err := s.Client.AppsV1().Deployments(namespace).Get(ctx, name, metav1.GetOptions{})
		if err != nil {
			return err
		}
		if ready := deployment.Status.ReadyReplicas; ready != replicas || deployment.Status.Replicas != replicas {
			return fmt.Errorf("%d of %d pods are ready, want %d", ready, deployment.Status.Replicas, replicas)
		}
		slices, err := s.Client.DiscoveryV1().EndpointSlices(namespace).List(ctx, metav1.ListOptions{LabelSelector: "kubernetes.io/service-name=" + name})
		if err != nil {
			return err
		}
		var endpoints int32
		for i := range slices.Items {
			endpoints += int32(len(slices.Items[i].Endpoints))
		}
		if endpoints != replicas {
			return fmt.Errorf("%d endpoints, want %d", endpoints, replicas)
		}
		return nil
	})
}

// waitForPod returns when a pod is ready.
func (s *subject) waitForPod(t *testing.T, name string) {
	t.Helper()
	s.eventually(t, readyTimeout, "pod "+name+" is ready", func(ctx context.Context) error {
		pod, err := s.Client.CoreV1().Pods(namespace).Get(ctx, name, metav1.GetOptions{})
		if err != nil {
			return err
		}
		return controlplane.PodReady(pod)
	})
}
