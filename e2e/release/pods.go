// Copyright The Tripod Authors.
// SPDX-License-Identifier: Apache-2.0

package release

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"slices"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/portforward"
	"k8s.io/client-go/transport/spdy"

	"github.com/tripod-k8s/tripod/test/framework"
)

// Components of a release.
const (
	Aggregator = "aggregator"
	Core       = "core"
	Extensions = "extensions"
	Etcd       = "etcd"
)

// Services are those that have a Deployment each.
var Services = []string{Core, Extensions, Aggregator}

// securePort is where each service serves its API.
const securePort = 6443

// Pods returns the pods of a component that are not about to stop, by name.
func (r *Release) Pods(ctx context.Context, component string) ([]corev1.Pod, error) {
	all, err := r.AllPods(ctx, component)
	return slices.DeleteFunc(all, func(p corev1.Pod) bool { return p.DeletionTimestamp != nil }), err
}

// AllPods returns the pods of a component, also those that stop, by name.
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

// Scale has a service run in so many replicas, by kubectl scale, and returns when they are ready and the others are gone.
func (r *Release) Scale(ctx context.Context, service string, replicas int) error {
	if _, err := r.HostKubectl(ctx, "", "scale", fmt.Sprintf("--replicas=%d", replicas), "deployment/"+r.Name+"-"+service); err != nil {
		return err
	}
	return r.Settled(ctx, service)
}

// Settled returns when a service has as many ready pods as it should, of its newest form, and no others.
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

// Forward has a port of a pod reached at the address that it returns, until stop is called.
func (r *Release) Forward(ctx context.Context, pod string, port int) (address string, stop func(), err error) {
	url := r.Host.Client.CoreV1().RESTClient().Post().Resource("pods").Namespace(r.Namespace).Name(pod).SubResource("portforward").URL()
	transport, upgrader, err := spdy.RoundTripperFor(r.Host.Config())
	if err != nil {
		return "", nil, err
	}
	dialer := spdy.NewDialer(upgrader, &http.Client{Transport: transport}, http.MethodPost, url)
	stopping, ready, ended := make(chan struct{}), make(chan struct{}), make(chan error, 1)
	forwarder, err := portforward.New(dialer, []string{fmt.Sprintf("0:%d", port)}, stopping, ready, io.Discard, io.Discard)
	if err != nil {
		return "", nil, err
	}
	go func() { ended <- forwarder.ForwardPorts() }()
	select {
	case <-ready:
	case err := <-ended:
		return "", nil, fmt.Errorf("cannot forward a port of %s: %w", pod, err)
	case <-ctx.Done():
		close(stopping)
		return "", nil, errors.Join(ctx.Err(), <-ended)
	}
	stop = func() {
		close(stopping)
		<-ended //nolint:errcheck // it was asked to
	}
	ports, err := forwarder.GetPorts()
	if err != nil {
		stop()
		return "", nil, err
	}
	return fmt.Sprintf("127.0.0.1:%d", ports[0].Local), stop, nil
}

// Metric returns the sum over the series of a counter or gauge of a replica that have all these labels (as name=value). The replicas of core and
// extensions are asked through the aggregator, as administrators do; an aggregator itself.
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
	defer body.Close() //nolint:errcheck // it was only read
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
