// Copyright The Tripod Authors.
// SPDX-License-Identifier: Apache-2.0

package release

import (
	"context"
	"fmt"
	"io"
	"slices"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"

	"github.com/tripod-k8s/tripod/e2e/kindcluster"
	"github.com/tripod-k8s/tripod/test/framework"
)

// The components of a release.
const (
	Aggregator = "aggregator"
	Core       = "core"
	Extensions = "extensions"
	Etcd       = "etcd"
)

// Services has the components that are Deployments.
var Services = []string{Core, Extensions, Aggregator}

// securePort is the port of each service's API.
const securePort = 6443

// Pods returns the pods of a component, sorted by name, without those that terminate.
func (r *Release) Pods(ctx context.Context, component string) ([]corev1.Pod, error) {
	all, err := r.AllPods(ctx, component)
	return slices.DeleteFunc(all, func(p corev1.Pod) bool { return p.DeletionTimestamp != nil }), err
}

// AllPods returns the pods of a component, sorted by name, including those that terminate.
func (r *Release) AllPods(ctx context.Context, component string) ([]corev1.Pod, error) {
	selector := "app.kubernetes.io/instance=" + r.Name + ",app.kubernetes.io/component=" + component
	list, err := r.Host.Client.CoreV1().Pods(r.Namespace).List(ctx, metav1.ListOptions{LabelSelector: selector})
	if err != nil {
		return nil, err
	}
	return list.Items, nil
}

// Deployment returns the Deployment of a service.
func (r *Release) Deployment(ctx context.Context, service string) (*appsv1.Deployment, error) {
	return r.Host.Client.AppsV1().Deployments(r.Namespace).Get(ctx, r.Name+"-"+service, metav1.GetOptions{})
}

// Scale scales a service with kubectl, and returns when all replicas are ready and no other pod is left.
func (r *Release) Scale(ctx context.Context, service string, replicas int) error {
	if _, err := r.HostKubectl(ctx, "", "scale", fmt.Sprintf("--replicas=%d", replicas), "deployment/"+r.Name+"-"+service); err != nil {
		return err
	}
	return r.Settled(ctx, service)
}

// Settled returns when all replicas of a service are ready and up to date, and no other pod is left.
func (r *Release) Settled(ctx context.Context, service string) error {
	return framework.Poll(ctx, service+" is ready", func(ctx context.Context) error {
		d, err := r.Deployment(ctx, service)
		if err != nil {
			return err
		}
		pods, err := r.AllPods(ctx, service)
		if err != nil {
			return err
		}
		s, want := d.Status, *d.Spec.Replicas
		if s.ObservedGeneration < d.Generation || s.ReadyReplicas != want || s.UpdatedReplicas != want || len(pods) != int(want) {
			return fmt.Errorf("%s has %d of %d replicas ready, %d of them up to date, and %d pods", d.Name, s.ReadyReplicas, want, s.UpdatedReplicas, len(pods))
		}
		return nil
	})
}

// Forward forwards a port of 127.0.0.1, whose address it returns, to a port of a pod until stop is called.
func (r *Release) Forward(ctx context.Context, pod string, port int) (address string, stop func(), err error) {
	return r.Host.Forward(ctx, kindcluster.SPDY, r.Namespace, pod, port)
}

// Metric returns the sum of a counter or gauge of a replica over the series that have all these labels (name=value). It asks an aggregator
// directly, and other replicas through the aggregator, as administrators do.
func (r *Release) Metric(ctx context.Context, service string, pod *corev1.Pod, name string, labels ...string) (float64, error) {
	ctx, cancel := context.WithTimeout(ctx, 20*time.Second)
	defer cancel()
	config := r.Admin()
	if service == Aggregator {
		address, stop, err := r.Forward(ctx, pod.Name, securePort)
		if err != nil {
			return 0, err
		}
		defer stop()
		config.Host = "https://" + address
	}
	body, err := metrics(ctx, config, service, pod)
	if err != nil {
		return 0, fmt.Errorf("metrics of %s: %w", pod.Name, err)
	}
	defer body.Close() //nolint:errcheck // only read
	return framework.SumMetric(body, name, labels...)
}

func metrics(ctx context.Context, config *rest.Config, service string, pod *corev1.Pod) (io.ReadCloser, error) {
	client, err := kubernetes.NewForConfig(config)
	if err != nil {
		return nil, err
	}
	request := client.RESTClient().Get().AbsPath("/metrics")
	if service != Aggregator {
		request = request.Param("service", service).Param("replica", fmt.Sprintf("%s:%d", pod.Status.PodIP, securePort))
	}
	return request.Stream(ctx)
}
