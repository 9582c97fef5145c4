// Copyright The Tripod Authors.
// SPDX-License-Identifier: Apache-2.0

package join

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"text/template"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
	"k8s.io/kubernetes/cmd/kubeadm/app/constants"

	"github.com/tripod-k8s/tripod/e2e/environment"
	"github.com/tripod-k8s/tripod/e2e/kindcluster"
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
	for _, volume := range []string{"tripod", "tripod-snapshots"} {
		if err == nil {
			err = e.Volume(ctx, volume)
		}
	}
	if err == nil {
		err = tripod.Up(ctx, values)
	}
	if err == nil {
		client, err = kubernetes.NewForConfig(tripod.Admin())
	}
	return err
}

// valuesOf returns the values of a cluster, with what this one needs besides: its addresses, and images that need no registry.
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
	images := map[string]release.Values{}
	for _, program := range []string{constants.KubeScheduler, tunnelServer, tunnelAgent} { // the node that joins gets the agent, too
		if images[program], err = e.Program(e.Cluster, program); err != nil {
			return nil, err
		}
	}
	join, err := joinOf(ctx, e)
	if err != nil {
		return nil, err
	}
	values["preset"], values["join"], values["clusterCIDR"] = "cluster", join, podCIDR
	values["konnectivity"] = release.Values{
		"service": release.Values{"nodePort": environment.OtherNodePort},
		"server":  release.Values{"image": images[tunnelServer]}, "agent": release.Values{"image": images[tunnelAgent]},
	}
	values["scheduler"] = release.Values{"image": images[constants.KubeScheduler]}
	values["etcd"].(release.Values)["snapshots"] = release.Values{"storageClassName": environment.VolumeClass, "size": "1Gi"}
	// With these requests all pods fit on a node of two processors.
	values["core"] = release.Values{"replicas": 2, "resources": release.Values{"requests": release.Values{"cpu": "20m"}}}
	return values, nil
}

// joinOf returns the values of nodes that join. Their node image has CoreDNS, and a kube-proxy that may be older than Tripod.
func joinOf(ctx context.Context, e *environment.Environment) (release.Values, error) {
	_, dns, err := e.Cluster.Image(ctx, constants.CoreDNSImageName)
	if err != nil {
		return nil, err
	}
	_, proxy, err := e.Cluster.Image(ctx, constants.KubeProxy)
	if err != nil {
		return nil, err
	}
	network, err := networkOf(ctx, e.Cluster)
	if err != nil {
		return nil, err
	}
	return release.Values{
		"endpoint": endpoint, "kubeletConfiguration": inKind, "podNetwork": network,
		"coreDNS": release.Values{"imageTag": dns},
		// In a container, kube-proxy cannot set limits of the kernel.
		"kubeProxy": release.Values{"imageTag": proxy, "configuration": release.Values{"conntrack": release.Values{"maxPerCore": 0}}},
	}, nil
}

// networkOf returns manifests for the network of pods: kind's, unless the node image brings a configuration of its own and has none, and an object that
// shows whether they exist.
func networkOf(ctx context.Context, cluster *kindcluster.Cluster) (string, error) {
	const kinds = "/kind/manifests/default-cni.yaml"
	manifest, err := cluster.Exec(ctx, nil, "sh", "-c", "if [ -e "+kinds+" ]; then cat "+kinds+"; fi")
	if err != nil {
		return "", err
	}
	parsed, err := template.New("network").Parse(manifest)
	if err != nil {
		return "", err
	}
	var filled strings.Builder
	if err := parsed.Execute(&filled, struct{ PodSubnet string }{podCIDR}); err != nil {
		return "", err
	}
	return filled.String() + "\n---\n{apiVersion: v1, kind: ConfigMap, metadata: {name: network, namespace: kube-system}}\n", nil
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
