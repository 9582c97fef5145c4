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
	"github.com/tripod-k8s/tripod/e2e/kindcluster"
	"github.com/tripod-k8s/tripod/e2e/release"
	"github.com/tripod-k8s/tripod/test/framework"
)

const (
	// registry is that of the images that the tests pack.
	registry = "docker.io"
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
	values["clusterCIDR"] = podCIDR
	values["advertise"] = release.Values{"address": "hostIP", "port": environment.NodePort}
	values["join"] = release.Values{"enabled": true, "endpoint": endpoint, "kubeletConfiguration": inKind}
	values["konnectivity"] = release.Values{
		"enabled": true, "endpoint": fmt.Sprintf("%s:%d", address, environment.OtherNodePort),
		"service": release.Values{"nodePort": environment.OtherNodePort},
		"server":  release.Values{"image": imageOf(e, tunnelServer)}, "agent": release.Values{"image": imageOf(e, tunnelAgent)},
	}
	values["controllerManager"] = release.Values{"enabled": true, "image": imageOf(e, constants.KubeControllerManager)}
	values["scheduler"] = release.Values{"enabled": true, "image": imageOf(e, constants.KubeScheduler)}
	// With these requests all pods fit on a node of two processors.
	values["core"] = release.Values{"replicas": 2, "resources": release.Values{"requests": release.Values{"cpu": "20m"}}}
	for _, program := range []string{constants.KubeControllerManager, constants.KubeScheduler, tunnelServer} {
		if err := load(e, e.Cluster, program); err != nil {
			return nil, err
		}
	}
	return values, nil
}

// inKind are fields with which a kubelet runs in a container, as kind sets them.
var inKind = release.Values{
	"cgroupRoot": "/kubelet", "failSwapOn": false, "imageGCHighThresholdPercent": 100,
	"evictionHard": release.Values{"nodefs.available": "0%", "nodefs.inodesFree": "0%", "imagefs.available": "0%"},
}

// imageOf returns the values of the image of a program.
func imageOf(e *environment.Environment, program string) release.Values {
	return release.Values{"registry": registry, "repository": "tripod-e2e/" + program, "tag": e.Tag()}
}

// load packs a stock program into an image, and loads it into a cluster.
func load(e *environment.Environment, into *kindcluster.Cluster, program string) error {
	path, err := asset(program)
	if err != nil {
		return err
	}
	pack := imagearchive.WriteComponent
	if program == tunnelServer || program == tunnelAgent { // their images have them in the root directory
		pack = imagearchive.Write
	}
	archive := filepath.Join(e.Dir, program+".tar")
	if err := pack(archive, registry+"/tripod-e2e/"+program+":"+e.Tag(), path); err != nil {
		return err
	}
	_, err = into.Load(archive)
	return err
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
