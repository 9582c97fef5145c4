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
	"github.com/tripod-k8s/tripod/e2e/release"
	"github.com/tripod-k8s/tripod/test/framework"
)

const (
	// podCIDR has the addresses that kind gives to pods.
	podCIDR = "10.244.0.0/16"
	// tunnelServer and tunnelAgent are the programs of konnectivity.
	tunnelServer, tunnelAgent = "proxy-server", "proxy-agent"
)

var (
	// env is the cluster of the release. endpoint is where nodes reach it, and client its administrator.
	env      *environment.Environment
	tripod   *release.Release
	endpoint string
	client   kubernetes.Interface
)

func TestMain(m *testing.M) {
	environment.Main(m, "-join", setup, func(e *environment.Environment) error { return e.Collect(tripod) })
}

func setup(ctx context.Context, e *environment.Environment) error {
	env, tripod = e, e.Release("tripod", "tripod")
	values, err := valuesOf(ctx, e)
	if err == nil {
		err = e.Volume(ctx, "tripod")
	}
	if err == nil {
		err = tripod.Up(ctx, values)
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
	scheduler, err := e.Program(e.Cluster, constants.KubeScheduler)
	if err != nil {
		return nil, err
	}
	server, err := e.Program(e.Cluster, tunnelServer)
	if err != nil {
		return nil, err
	}
	agent, err := e.Program(e.Cluster, tunnelAgent) // the node that joins gets it, too
	if err != nil {
		return nil, err
	}
	values["clusterCIDR"] = podCIDR
	values["advertise"] = release.Values{"address": "hostIP", "port": environment.NodePort}
	values["join"] = release.Values{"enabled": true, "endpoint": endpoint, "kubeletConfiguration": inKind}
	values["konnectivity"] = release.Values{
		"enabled": true, "endpoint": fmt.Sprintf("%s:%d", address, environment.OtherNodePort),
		"service": release.Values{"nodePort": environment.OtherNodePort},
		"server":  release.Values{"image": server}, "agent": release.Values{"image": agent},
	}
	values["controllerManager"].(release.Values)["enabled"] = true
	values["scheduler"] = release.Values{"enabled": true, "image": scheduler}
	// With these requests all pods fit on a node of two processors.
	values["core"] = release.Values{"replicas": 2, "resources": release.Values{"requests": release.Values{"cpu": "20m"}}}
	return values, nil
}

// inKind are fields with which a kubelet runs in a container, as kind sets them.
var inKind = release.Values{
	"cgroupRoot": "/kubelet", "failSwapOn": false, "imageGCHighThresholdPercent": 100,
	"evictionHard": release.Values{"nodefs.available": "0%", "nodefs.inodesFree": "0%", "imagefs.available": "0%"},
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
