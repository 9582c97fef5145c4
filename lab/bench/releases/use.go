// Copyright The Tripod Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strings"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"

	"github.com/tripod-k8s/tripod/e2e/environment"
	"github.com/tripod-k8s/tripod/e2e/release"
	"github.com/tripod-k8s/tripod/test/framework"
)

// with calls use with a client of a release.
func with(ctx context.Context, c *controlPlane, use func(kubernetes.Interface) error) error {
	config, err := c.Connect(ctx)
	if err != nil {
		return err
	}
	pods, err := c.Pods(ctx, release.Aggregator)
	if err != nil || len(pods) == 0 {
		return errors.Join(errors.New("it has no aggregator"), err)
	}
	address, stop, err := c.Forward(ctx, pods[0].Name, 6443)
	if err != nil {
		return err
	}
	defer stop()
	config.Host = "https://" + address
	client, err := kubernetes.NewForConfig(config)
	if err != nil {
		return err
	}
	return use(client)
}

// works writes an object with the name of the release, and reads it.
func works(ctx context.Context, c *controlPlane) error {
	return with(ctx, c, func(client kubernetes.Interface) error {
		object := &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Name: c.Name}}
		if _, err := client.CoreV1().ConfigMaps("default").Create(ctx, object, metav1.CreateOptions{}); err != nil {
			return err
		}
		_, err := client.CoreV1().ConfigMaps("default").Get(ctx, c.Name, metav1.GetOptions{})
		return err
	})
}

// apart returns an error if a release shows the object of another one.
func apart(ctx context.Context, all []*controlPlane) error {
	for _, c := range all {
		err := with(ctx, c, func(client kubernetes.Interface) error {
			objects, err := client.CoreV1().ConfigMaps("default").List(ctx, metav1.ListOptions{})
			if err != nil {
				return err
			}
			for _, object := range objects.Items {
				if object.Name != c.Name && object.Name != "kube-root-ca.crt" {
					return fmt.Errorf("it has the ConfigMap %s", object.Name)
				}
			}
			return nil
		})
		if err != nil {
			return fmt.Errorf("%s: %w", c.Name, err)
		}
	}
	return nil
}

// summary is as much of the kubelet's answer to /stats/summary as is needed here.
type summary struct {
	Pods []struct {
		PodRef struct {
			Name, Namespace string
		}
		Memory struct {
			// RSSBytes is anonymous memory: that of the processes, without the pages of their files.
			RSSBytes uint64
		}
	}
}

// weigh notes the memory of the pods. The kubelet reports that of a new pod a while later.
func (r *report) weigh(ctx context.Context, env *environment.Environment) error {
	return framework.Poll(ctx, "the kubelet reports the memory of all pods", func(ctx context.Context) error { return r.read(ctx, env) })
}

func (r *report) read(ctx context.Context, env *environment.Environment) error {
	path := "/api/v1/nodes/" + env.Cluster.NodeName() + "/proxy/stats/summary"
	data, err := env.Cluster.Client.CoreV1().RESTClient().Get().AbsPath(path).DoRaw(ctx)
	if err != nil {
		return fmt.Errorf("ask the kubelet for the memory of pods: %w", err)
	}
	var all summary
	if err := json.Unmarshal(data, &all); err != nil {
		return fmt.Errorf("read the answer of the kubelet: %w", err)
	}
	for _, c := range r.Releases {
		c.Memory = map[string]uint64{}
		for _, pod := range all.Pods {
			if pod.PodRef.Namespace != c.Namespace {
				continue
			}
			for _, component := range components {
				if strings.HasPrefix(pod.PodRef.Name, c.Name+"-"+component+"-") {
					c.Memory[component] += pod.Memory.RSSBytes
				}
			}
		}
		for _, component := range components {
			if c.Memory[component] == 0 && (component != release.Etcd || c.Etcd == c.Name) {
				return fmt.Errorf("the kubelet reports no memory of %s of %s", component, c.Name)
			}
		}
	}
	return nil
}
