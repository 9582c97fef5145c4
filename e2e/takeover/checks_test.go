// Copyright The Tripod Authors.
// SPDX-License-Identifier: Apache-2.0

package takeover

import (
	"context"
	"encoding/json"
	"fmt"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"

	"github.com/tripod-k8s/tripod/e2e/kindcluster"
	"github.com/tripod-k8s/tripod/test/framework/inventory"
)

// late has workloads that the tests create while one API server or the other runs.
const late = `
apiVersion: v1
kind: Namespace
metadata: {name: LATE}
---
apiVersion: apps/v1
kind: Deployment
metadata: {name: late, namespace: LATE}
spec:
  replicas: 1
  selector: {matchLabels: {app: late}}
  template:
    metadata: {labels: {app: late}}
    spec:
      terminationGracePeriodSeconds: 1
      containers:
      - {name: late, image: "IMAGE", args: [serve], readinessProbe: {httpGet: {port: 8080}, periodSeconds: 1}}
---
apiVersion: v1
kind: Service
metadata: {name: late, namespace: LATE}
spec: {selector: {app: late}, ports: [{port: 80, targetPort: 8080}]}
---
apiVersion: batch/v1
kind: Job
metadata: {name: late, namespace: LATE}
spec:
  backoffLimit: 100
  template: {spec: {restartPolicy: OnFailure, containers: [{name: job, image: "IMAGE", args: [get, "http://server.takeover/"]}]}}
---
apiVersion: example.com/v1
kind: Boat
metadata: {name: late, namespace: LATE, finalizers: [example.com/keep]}
spec: {length: 12}
`

// check checks that all clients of the API server work: kubelet, controllers, kube-proxy, CoreDNS, pods and users.
func (s *subject) check(t *testing.T, phase string) {
	server := s.podOf(t, "app=server")
	t.Run("exec", func(t *testing.T) { s.checkExec(t, server) })
	t.Run("logs", func(t *testing.T) { s.checkLogs(t, server) })
	t.Run("port-forward", func(t *testing.T) { s.checkPortForward(t, server) })
	t.Run("pods are clients", s.checkServiceAccount)
	t.Run("admission", s.checkAdmission)
	t.Run("controllers and kubelet", func(t *testing.T) { s.checkControllers(t, "late-"+phase) })
}

func (s *subject) podOf(t *testing.T, selector string) string {
	t.Helper()
	pods, err := s.Client.CoreV1().Pods(namespace).List(t.Context(), metav1.ListOptions{LabelSelector: selector})
	if err != nil || len(pods.Items) == 0 {
		t.Fatalf("no pod %s: %v", selector, err)
	}
	return pods.Items[0].Name
}

// checkServiceAccount checks that the API server accepts the token that a pod got before the exchange, and that the pod has its rights and
// no others.
func (s *subject) checkServiceAccount(t *testing.T) {
	for path, want := range map[string]string{
		"/api/v1/namespaces/takeover/configmaps/settings":         `"key":"value"`,
		"/apis/example.com/v1/namespaces/takeover/boats/dinghy":   `"length":3`,
		"/apis/example.com/v1/namespaces/takeover/boats?limit=10": `"BoatList"`,
	} {
		if got, err := s.exec(t.Context(), kindcluster.WebSocket, "client-0", "", "api", path); err != nil || !strings.Contains(strings.ReplaceAll(got, " ", ""), want) {
			t.Errorf("%s: %s, %v; want %s", path, got, err, want)
		}
	}
	if got, err := s.exec(t.Context(), kindcluster.WebSocket, "client-0", "", "api", "/api/v1/namespaces/takeover/secrets"); err == nil || !strings.Contains(err.Error(), "403") {
		t.Errorf("a pod without the right reads secrets: %q, %v", got, err)
	}
}

// checkAdmission checks that an admission policy from before the exchange is in force.
func (s *subject) checkAdmission(t *testing.T) {
	boat := &unstructured.Unstructured{Object: map[string]any{
		"apiVersion": "example.com/v1", "kind": "Boat", "metadata": map[string]any{"name": "liner"}, "spec": map[string]any{"length": int64(300)},
	}}
	if _, err := s.dynamic.Resource(inventory.Boats).Namespace(namespace).Create(t.Context(), boat, metav1.CreateOptions{}); !apierrors.IsInvalid(err) {
		t.Errorf("a boat of 300 m: got %v, want a refusal by the policy", err)
	}
}

// checkControllers checks that controllers, scheduler and kubelet start new workloads and remove them again.
func (s *subject) checkControllers(t *testing.T, name string) {
	s.create(t, strings.ReplaceAll(late, "LATE", name))
	scale := []byte(`{"spec":{"replicas":2}}`)
	if _, err := s.Client.AppsV1().Deployments(name).Patch(t.Context(), "late", types.MergePatchType, scale, metav1.PatchOptions{}); err != nil {
		t.Fatal(err)
	}
	s.waitForDeployment(t, name, "late", 2)
	// The name of the new Service works only if CoreDNS and kube-proxy watch the API server.
	s.eventually(t, readyTimeout, "a pod reaches the new Service", func(ctx context.Context) error {
		_, err := s.exec(ctx, kindcluster.SPDY, "client-0", "", "get", "http://late."+name+".svc.cluster.local/")
		return err
	})
	s.eventually(t, readyTimeout, "the Job is complete", func(ctx context.Context) error {
		job, err := s.Client.BatchV1().Jobs(name).Get(ctx, "late", metav1.GetOptions{})
		if err == nil && job.Status.Succeeded != 1 {
			err = fmt.Errorf("%d pods failed, %d are active", job.Status.Failed, job.Status.Active)
		}
		return err
	})
	s.removeNamespace(t, name)
}

// removeNamespace deletes a namespace in which a finalizer holds up the deletion.
func (s *subject) removeNamespace(t *testing.T, name string) {
	require.NoError(t, s.Client.CoreV1().Namespaces().Delete(t.Context(), name, metav1.DeleteOptions{}))
	s.eventually(t, readyTimeout, "the namespace waits for the finalizer of a custom resource", func(ctx context.Context) error {
		got, err := s.Client.CoreV1().Namespaces().Get(ctx, name, metav1.GetOptions{})
		if err != nil {
			return err
		}
		for _, condition := range got.Status.Conditions {
			if condition.Type == corev1.NamespaceFinalizersRemaining && condition.Status == corev1.ConditionTrue {
				return nil
			}
		}
		return fmt.Errorf("the namespace has the conditions %v", got.Status.Conditions)
	})
	none := []byte(`{"metadata":{"finalizers":null}}`)
	if _, err := s.dynamic.Resource(inventory.Boats).Namespace(name).Patch(t.Context(), "late", types.MergePatchType, none, metav1.PatchOptions{}); err != nil {
		t.Fatal(err)
	}
	s.eventually(t, readyTimeout, "the namespace is gone", func(ctx context.Context) error {
		got, err := s.Client.CoreV1().Namespaces().Get(ctx, name, metav1.GetOptions{})
		switch {
		case apierrors.IsNotFound(err):
			return nil
		case err != nil:
			return err
		}
		return fmt.Errorf("the namespace has the conditions %v", got.Status.Conditions)
	})
}

// outcome counts requests from pod to pod.
type outcome struct {
	Requests, Failures int
	LastError          string
}

// dataPath returns the outcome so far of requests between pods, which do not need an API server.
func (s *subject) dataPath(t *testing.T) outcome {
	t.Helper()
	address, stop, err := s.Forward(t.Context(), kindcluster.SPDY, namespace, "client-0", 8080)
	require.NoError(t, err)
	defer stop()
	body, err := get(t.Context(), "http://"+address+"/")
	require.NoError(t, err)
	var result outcome
	require.NoError(t, json.Unmarshal([]byte(body), &result))
	return result
}

// waitForData returns when all requests between pods succeed. kube-proxy needs a while for a new Service.
func (s *subject) waitForData(t *testing.T) {
	t.Helper()
	const enough = 20
	last := s.dataPath(t)
	s.eventually(t, readyTimeout, "the client in a pod is served", func(context.Context) error {
		now := s.dataPath(t)
		if now.Failures > last.Failures {
			last = now
		}
		if served := now.Requests - last.Requests; served < enough {
			return fmt.Errorf("%d requests were served since %s", served, now.LastError)
		}
		return nil
	})
}
