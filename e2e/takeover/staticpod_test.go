// Copyright The Tripod Authors.
// SPDX-License-Identifier: Apache-2.0

package takeover

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/wait"
	"sigs.k8s.io/yaml"

	"github.com/tripod-k8s/tripod/e2e/kindcluster"
)

const (
	// manifestPath is the manifest of the static pod, from kubeadm. The kubelet runs it.
	manifestPath = "/etc/kubernetes/manifests/kube-apiserver.yaml"
	// besidePath is on the same file system, so that a move from there is atomic.
	besidePath = "/etc/kubernetes/kube-apiserver.new.yaml"
	// exchangeTimeout leaves time for one API server to stop, the kubelet to notice, and another one to start.
	exchangeTimeout = 3 * time.Minute
)

// withImage returns a manifest of kubeadm with another image and additional flags. It changes nothing else.
func withImage(manifest []byte, image string, flags ...string) ([]byte, error) {
	var pod corev1.Pod
	if err := yaml.UnmarshalStrict(manifest, &pod); err != nil {
		return nil, fmt.Errorf("cannot read %s: %w", manifestPath, err)
	}
	if n := len(pod.Spec.Containers); n != 1 {
		return nil, fmt.Errorf("%s has %d containers", manifestPath, n)
	}
	pod.Spec.Containers[0].Image = image
	pod.Spec.Containers[0].Command = append(pod.Spec.Containers[0].Command, flags...)
	return yaml.Marshal(pod)
}

// exchange replaces the manifest of kube-apiserver and returns when the new API server serves and the control plane works with it.
func (s *subject) exchange(t *testing.T, manifest []byte) {
	t.Helper()
	var pod corev1.Pod
	require.NoError(t, yaml.Unmarshal(manifest, &pod))
	began := time.Now()
	s.onNode(t, bytes.NewReader(manifest), "cp", "/dev/stdin", besidePath)
	s.onNode(t, nil, "mv", besidePath, manifestPath)
	s.waitForAPIServer(t, pod.Spec.Containers[0].Image)
	served := time.Since(began)
	s.waitForControlPlane(t, began)
	s.waitForPods(t)
	t.Logf("%s serves after %s, the control plane works with it after %s", pod.Spec.Containers[0].Image,
		served.Round(100*time.Millisecond), time.Since(began).Round(100*time.Millisecond))
}

// waitForAPIServer returns when the mirror pod of kube-apiserver runs image and is ready.
func (s *subject) waitForAPIServer(t *testing.T, image string) {
	t.Helper()
	s.eventually(t, exchangeTimeout, "kube-apiserver runs "+image, func(ctx context.Context) error {
		pod, err := s.Client.CoreV1().Pods(metav1.NamespaceSystem).Get(ctx, "kube-apiserver-"+s.NodeName(), metav1.GetOptions{})
		if err != nil {
			return err
		}
		if got := pod.Spec.Containers[0].Image; got != image {
			return fmt.Errorf("the mirror pod still has the image %s", got)
		}
		for _, status := range pod.Status.ContainerStatuses {
			if status.RestartCount > 0 {
				return fmt.Errorf("the container restarted %d times", status.RestartCount)
			}
		}
		return podReady(pod)
	})
}

// waitForControlPlane returns when the kubelet, the controller manager and the scheduler have renewed their leases after a given time, and
// all pods of the control plane are ready. The controller manager and the scheduler exit after ten seconds without an API server, and the
// kubelet restarts them.
func (s *subject) waitForControlPlane(t *testing.T, after time.Time) {
	t.Helper()
	s.eventually(t, exchangeTimeout, "the control plane is back", func(ctx context.Context) error {
		for _, lease := range []struct{ namespace, name string }{
			{corev1.NamespaceNodeLease, s.NodeName()},
			{metav1.NamespaceSystem, "kube-controller-manager"},
			{metav1.NamespaceSystem, "kube-scheduler"},
		} {
			got, err := s.Client.CoordinationV1().Leases(lease.namespace).Get(ctx, lease.name, metav1.GetOptions{})
			if err != nil {
				return err
			}
			// The node is a container on this machine, so both have the same clock.
			if got.Spec.RenewTime == nil || !got.Spec.RenewTime.After(after) {
				return fmt.Errorf("lease %s was last renewed at %v", lease.name, got.Spec.RenewTime)
			}
		}
		pods, err := s.Client.CoreV1().Pods(metav1.NamespaceSystem).List(ctx, metav1.ListOptions{})
		if err != nil {
			return err
		}
		var unready []error
		for i := range pods.Items {
			if err := podReady(&pods.Items[i]); err != nil {
				unready = append(unready, fmt.Errorf("%s: %w", pods.Items[i].Name, err))
			}
		}
		return errors.Join(unready...)
	})
}

// waitForPods returns when a pod reaches the API server through its Service, whose endpoint kube-proxy follows.
func (s *subject) waitForPods(t *testing.T) {
	t.Helper()
	s.eventually(t, exchangeTimeout, "a pod reaches the API server", func(ctx context.Context) error {
		_, err := s.exec(ctx, kindcluster.SPDY, "client-0", "", "api", "/api/v1/namespaces/takeover/configmaps/settings")
		return err
	})
}

func podReady(pod *corev1.Pod) error {
	for _, condition := range pod.Status.Conditions {
		if condition.Type == corev1.PodReady && condition.Status == corev1.ConditionTrue {
			return nil
		}
	}
	return fmt.Errorf("the pod is %s and not ready", pod.Status.Phase)
}

// eventually retries until there is no error.
func (s *subject) eventually(t *testing.T, timeout time.Duration, what string, try func(context.Context) error) {
	t.Helper()
	var last error
	err := wait.PollUntilContextTimeout(t.Context(), 200*time.Millisecond, timeout, true, func(ctx context.Context) (bool, error) {
		attempt, cancel := context.WithTimeout(ctx, 10*time.Second)
		defer cancel()
		last = try(attempt)
		return last == nil, nil
	})
	if err != nil {
		t.Fatalf("%s: not within %s: %v", what, timeout, last)
	}
}

func TestManifestKeepsAllButTheImage(t *testing.T) {
	manifest := []byte("apiVersion: v1\nkind: Pod\nmetadata: {name: kube-apiserver}\nspec:\n  containers:\n  - name: kube-apiserver\n" +
		"    image: a\n    command: [kube-apiserver, --secure-port=6443]\n  hostNetwork: true\n")
	got, err := withImage(manifest, "b", "--emulated-version=1.34")
	require.NoError(t, err)
	for _, want := range []string{"image: b\n", "- --secure-port=6443\n", "- --emulated-version=1.34\n", "hostNetwork: true\n"} {
		if !bytes.Contains(got, []byte(want)) {
			t.Errorf("no %q in\n%s", strings.TrimSpace(want), got)
		}
	}
}
