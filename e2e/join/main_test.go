// Copyright The Tripod Authors.
// SPDX-License-Identifier: Apache-2.0

package join

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
	"k8s.io/kubernetes/cmd/kubeadm/app/constants"

	"github.com/tripod-k8s/tripod/e2e/environment"
	"github.com/tripod-k8s/tripod/e2e/imagearchive"
	"github.com/tripod-k8s/tripod/e2e/progress"
	"github.com/tripod-k8s/tripod/e2e/release"
	"github.com/tripod-k8s/tripod/test/framework"
)

const (
	// registry is that of the images that the tests pack.
	registry = "docker.io"
	// podCIDR has the addresses that kind gives to pods.
	podCIDR = "10.244.0.0/16"
)

var (
	// tripod is the release, endpoint where nodes reach it, and client its administrator.
	tripod   *release.Release
	endpoint string
	client   kubernetes.Interface
)

func TestMain(m *testing.M) {
	environment.Main(m, "-join", setup, func(e *environment.Environment) error { return e.Collect(tripod) })
}

func setup(ctx context.Context, e *environment.Environment) error {
	tripod = e.Release("tripod", "tripod")
	values, err := valuesOf(ctx, e)
	if err == nil {
		err = e.Volume(ctx, "tripod")
	}
	if err == nil {
		err = progress.Step("helm installs the chart", func() error { return tripod.Install(ctx, values) })
	}
	if err == nil {
		_, err = tripod.Connect(ctx)
	}
	if err == nil {
		err = tripod.AwaitReachable(ctx)
	}
	if err == nil {
		client, err = kubernetes.NewForConfig(tripod.Admin())
	}
	return err
}

// valuesOf returns the values of docs/install.md for this cluster.
func valuesOf(ctx context.Context, e *environment.Environment) (release.Values, error) {
	values, err := e.Values(ctx, environment.NodePort)
	if err != nil {
		return nil, err
	}
	address, err := addressOf(ctx, e.Cluster.Client)
	if err != nil {
		return nil, err
	}
	endpoint = fmt.Sprintf("%s:%d", address, environment.NodePort)
	values["clusterCIDR"] = podCIDR
	values["advertise"] = release.Values{"address": "hostIP", "port": environment.NodePort}
	values["join"] = release.Values{"enabled": true, "endpoint": endpoint, "kubeletConfiguration": inKind}
	for key, program := range map[string]string{"controllerManager": constants.KubeControllerManager, "scheduler": constants.KubeScheduler} {
		tag, err := load(e, program)
		if err != nil {
			return nil, err
		}
		values[key] = release.Values{"enabled": true, "image": release.Values{"registry": registry, "repository": "tripod-e2e/" + program, "tag": tag}}
	}
	return values, nil
}

// inKind are fields with which a kubelet runs in a container, as kind sets them.
var inKind = release.Values{
	"cgroupRoot": "/kubelet", "failSwapOn": false, "imageGCHighThresholdPercent": 100,
	"evictionHard": release.Values{"nodefs.available": "0%", "nodefs.inodesFree": "0%", "imagefs.available": "0%"},
}

// load packs a program that `make test-assets` has built into an image, loads it into the cluster, and returns its tag.
func load(e *environment.Environment, program string) (tag string, err error) {
	path, err := asset(program)
	if err != nil {
		return "", err
	}
	archive := filepath.Join(e.Dir, program+".tar")
	if err := imagearchive.WriteComponent(archive, registry+"/tripod-e2e/"+program+":"+e.Tag(), path); err != nil {
		return "", err
	}
	_, err = e.Cluster.Load(archive)
	return e.Tag(), err
}

// asset returns the path of a stock program.
func asset(program string) (string, error) {
	root, err := framework.RepositoryRoot()
	if err != nil {
		return "", err
	}
	path := filepath.Join(root, "bin", "test-assets", program)
	if _, err := os.Stat(path); err != nil {
		return "", fmt.Errorf("run `make e2e-join`, which builds it: %w", err)
	}
	return path, nil
}

// addressOf returns the address of the first node of a cluster.
func addressOf(ctx context.Context, client kubernetes.Interface) (string, error) {
	nodes, err := client.CoreV1().Nodes().List(ctx, metav1.ListOptions{})
	if err != nil {
		return "", err
	}
	for _, node := range nodes.Items {
		for _, address := range node.Status.Addresses {
			if address.Type == corev1.NodeInternalIP {
				return address.Address, nil
			}
		}
	}
	return "", errors.New("no node has an address")
}
