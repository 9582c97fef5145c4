// Copyright The Tripod Authors.
// SPDX-License-Identifier: Apache-2.0

package takeover

import (
	"context"
	"encoding/json"
	"fmt"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"
)

// late is what is made while one API server or the other is there.
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

// check checks that everything that needs an API server has one: kubelet, controllers, kube-proxy, CoreDNS, pods, people.
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

// checkServiceAccount checks that a pod is let in with the token that it has had since before, and sees what it may see.
func (s *subject) checkServiceAccount(t *testing.T) {
	for path, want := range map[string]string{
		"/api/v1/namespaces/takeover/configmaps/settings":         `"key":"value"`,
		"/apis/example.com/v1/namespaces/takeover/boats/dinghy":   `"length":3`,
		"/apis/example.com/v1/namespaces/takeover/boats?limit=10": `"BoatList"`,
	} {
		if got, err := s.exec(t.Context(), "WebSocket", "client-0", "", "api", path); err != nil || !strings.Contains(strings.ReplaceAll(got, " ", ""), want) {
			t.Errorf("%s: %s, %v; want %s", path, got, err, want)
		}
	}
	if got, err := s.exec(t.Context(), "WebSocket", "client-0", "", "api", "/api/v1/namespaces/takeover/secrets"); err == nil || !strings.Contains(err.Error(), "403") {
		t.Errorf("a pod sees secrets that it may not see: %q, %v", got, err)
	}
}

// checkAdmission checks that policy from before is in force.
func (s *subject) checkAdmission(t *testing.T) {
	boat := &unstructured.Unstructured{Object: map[string]any{
		"apiVersion": "example.com/v1", "kind": "Boat", "metadata": map[string]any{"name": "liner"}, "spec": map[string]any{"length": int64(300)},
	}}
	if _, err := s.dynamic.Resource(boats).Namespace(namespace).Create(t.Context(), boat, metav1.CreateOptions{}); !apierrors.IsInvalid(err) {
		t.Errorf("a boat of 300 m: %v, want that the policy refuses it", err)
	}
}

// checkControllers has controllers, scheduler and kubelet make new workloads and take them away again.
func (s *subject) checkControllers(t *testing.T, name string) {
	s.create(t, strings.ReplaceAll(late, "LATE", name))
	scale := []byte(`{"spec":{"replicas":2}}`)
	if _, err := s.Client.AppsV1().Deployments(name).Patch(t.Context(), "late", types.MergePatchType, scale, metav1.PatchOptions{}); err != nil {
		t.Fatal(err)
	}
	s.waitForDeployment(t, name, "late", 2)
	// A new Service by its name: CoreDNS and kube-proxy were told.
	s.eventually(t, readyTimeout, "a pod reaches the new Service", func(ctx context.Context) error {
		_, err := s.exec(ctx, "SPDY", "client-0", "", "get", "http://late."+name+".svc.cluster.local/")
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

// removeNamespace deletes a namespace, which waits for a finalizer in it.
func (s *subject) removeNamespace(t *testing.T, name string) {
	if err := s.Client.CoreV1().Namespaces().Delete(t.Context(), name, metav1.DeleteOptions{}); err != nil {
		t.Fatal(err)
	}
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
		return fmt.Errorf("conditions %v", got.Status.Conditions)
	})
	none := []byte(`{"metadata":{"finalizers":null}}`)
	if _, err := s.dynamic.Resource(boats).Namespace(name).Patch(t.Context(), "late", types.MergePatchType, none, metav1.PatchOptions{}); err != nil {
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
		return fmt.Errorf("conditions %v", got.Status.Conditions)
	})
}

// outcome is what became of requests from pod to pod.
type outcome struct {
	Requests, Failures int
	LastError          string
}

// dataPath returns what became so far of the requests of the client in a pod. What runs does not need an API server.
func (s *subject) dataPath(t *testing.T) outcome {
	t.Helper()
	address, stop, err := s.forward(t.Context(), "SPDY", s.podRequest("client-0", "portforward"), 8080)
	if err != nil {
		t.Fatal(err)
	}
	defer stop()
	body, err := get(t.Context(), "http://"+address+"/")
	if err != nil {
		t.Fatal(err)
	}
	var result outcome
	if err := json.Unmarshal([]byte(body), &result); err != nil {
		t.Fatal(err)
	}
	return result
}

// waitForData returns when the client in a pod reaches the server all the time: kube-proxy needs a while for a new Service.
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
