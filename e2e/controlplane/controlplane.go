// Copyright The Tripod Authors.
// SPDX-License-Identifier: Apache-2.0

// Package controlplane exchanges the static pods that kubeadm made on the control-plane node of a kind cluster.
package controlplane

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/wait"
	"sigs.k8s.io/yaml"

	"github.com/tripod-k8s/tripod/e2e/kindcluster"
)

// The components that kubeadm runs as static pods.
const (
	APIServer         = "kube-apiserver"
	ControllerManager = "kube-controller-manager"
	Scheduler         = "kube-scheduler"
)

const (
	// ManifestDir is the directory whose manifests the kubelet runs.
	ManifestDir = "/etc/kubernetes/manifests"
	// ExchangeTimeout leaves time for one API server to stop, the kubelet to notice, and another one to start.
	ExchangeTimeout = 3 * time.Minute
	// besideDir is on the same file system, so that a move from there is atomic.
	besideDir = "/etc/kubernetes"
	// stockPath is where docs/migrate.md keeps kubeadm's manifest of kube-apiserver.
	stockPath = "/etc/kubernetes/kube-apiserver.stock.yaml"
)

// Path returns the path of a component's manifest.
func Path(component string) string { return ManifestDir + "/" + component + ".yaml" }

// Read returns the manifest of a component.
func Read(ctx context.Context, cluster *kindcluster.Cluster, component string) ([]byte, error) {
	manifest, err := cluster.Exec(ctx, nil, "cat", Path(component))
	return []byte(manifest), err
}

// Put replaces the manifest of a component.
func Put(ctx context.Context, cluster *kindcluster.Cluster, component string, manifest []byte) error {
	beside := besideDir + "/" + component + ".new.yaml"
	if _, err := cluster.Exec(ctx, bytes.NewReader(manifest), "cp", "/dev/stdin", beside); err != nil {
		return err
	}
	_, err := cluster.Exec(ctx, nil, "mv", beside, Path(component))
	return err
}

// UseOne makes a static pod the API server, in place of whatever it was, and returns when it is ready.
func UseOne(ctx context.Context, cluster *kindcluster.Cluster, manifest []byte) error {
	image, err := ImageOf(manifest)
	if err != nil {
		return err
	}
	if _, err := cluster.Exec(ctx, nil, "find", ManifestDir, "-name", "tripod-*.yaml", "-delete"); err != nil {
		return err
	}
	if err := Put(ctx, cluster, APIServer, manifest); err != nil {
		return err
	}
	return WaitForImage(ctx, cluster, APIServer, image)
}

// WithImage returns a manifest with another image and additional flags. It changes nothing else.
func WithImage(manifest []byte, image string, flags ...string) ([]byte, error) {
	return edit(manifest, func(container *corev1.Container) {
		container.Image = image
		container.Command = append(container.Command, flags...)
	})
}

// WithFlags returns a manifest with additional flags.
func WithFlags(manifest []byte, flags ...string) ([]byte, error) {
	return edit(manifest, func(container *corev1.Container) { container.Command = append(container.Command, flags...) })
}

func edit(manifest []byte, change func(*corev1.Container)) ([]byte, error) {
	pod, err := parse(manifest)
	if err != nil {
		return nil, err
	}
	if n := len(pod.Spec.Containers); n != 1 {
		return nil, fmt.Errorf("the manifest of %s has %d containers", pod.Name, n)
	}
	change(&pod.Spec.Containers[0])
	return yaml.Marshal(pod)
}

func parse(manifest []byte) (*corev1.Pod, error) {
	var pod corev1.Pod
	if err := yaml.UnmarshalStrict(manifest, &pod); err != nil {
		return nil, fmt.Errorf("cannot read the manifest of a static pod: %w", err)
	}
	return &pod, nil
}

// ImageOf returns the image in a manifest.
func ImageOf(manifest []byte) (string, error) {
	var pod corev1.Pod
	if err := yaml.Unmarshal(manifest, &pod); err != nil || len(pod.Spec.Containers) == 0 {
		return "", errors.Join(errors.New("a manifest has no image"), err)
	}
	return pod.Spec.Containers[0].Image, nil
}

// WaitForImage returns when the mirror pod of a component runs image and is ready.
func WaitForImage(ctx context.Context, cluster *kindcluster.Cluster, component, image string) error {
	return Eventually(ctx, ExchangeTimeout, component+" runs "+image, func(ctx context.Context) error {
		pod, err := cluster.Client.CoreV1().Pods(metav1.NamespaceSystem).Get(ctx, component+"-"+cluster.NodeName(), metav1.GetOptions{})
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
		return PodReady(pod)
	})
}

// WaitForOthers returns when the kubelet, the controller manager and the scheduler have renewed their leases after a given time, and all pods of
// the control plane are ready. The controller manager and the scheduler exit after ten seconds without an API server, and the kubelet restarts
// them.
func WaitForOthers(ctx context.Context, cluster *kindcluster.Cluster, after time.Time) error {
	return Eventually(ctx, ExchangeTimeout, "the control plane is back", func(ctx context.Context) error {
		for _, lease := range []struct{ namespace, name string }{
			{corev1.NamespaceNodeLease, cluster.NodeName()},
			{metav1.NamespaceSystem, ControllerManager},
			{metav1.NamespaceSystem, Scheduler},
		} {
			got, err := cluster.Client.CoordinationV1().Leases(lease.namespace).Get(ctx, lease.name, metav1.GetOptions{})
			if err != nil {
				return err
			}
			// The node is a container on this machine, so both have the same clock.
			if got.Spec.RenewTime == nil || !got.Spec.RenewTime.After(after) {
				return fmt.Errorf("lease %s was last renewed at %v", lease.name, got.Spec.RenewTime)
			}
		}
		pods, err := cluster.Client.CoreV1().Pods(metav1.NamespaceSystem).List(ctx, metav1.ListOptions{})
		if err != nil {
			return err
		}
		var unready []error
		for i := range pods.Items {
			if err := PodReady(&pods.Items[i]); err != nil {
				unready = append(unready, fmt.Errorf("%s: %w", pods.Items[i].Name, err))
			}
		}
		return errors.Join(unready...)
	})
}

// PodReady returns an error if a pod is not ready.
func PodReady(pod *corev1.Pod) error {
	for _, condition := range pod.Status.Conditions {
		if condition.Type == corev1.PodReady && condition.Status == corev1.ConditionTrue {
			return nil
		}
	}
	return fmt.Errorf("the pod is %s and not ready", pod.Status.Phase)
}

// Eventually retries until there is no error.
func Eventually(ctx context.Context, timeout time.Duration, what string, try func(context.Context) error) error {
	var last error
	err := wait.PollUntilContextTimeout(ctx, 200*time.Millisecond, timeout, true, func(ctx context.Context) (bool, error) {
		attempt, cancel := context.WithTimeout(ctx, 10*time.Second)
		defer cancel()
		last = try(attempt)
		return last == nil, nil
	})
	if err != nil {
		return fmt.Errorf("%s: not within %s: %w", what, timeout, errors.Join(last, ctx.Err()))
	}
	return nil
}
