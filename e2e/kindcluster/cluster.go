// Copyright The Tripod Authors.
// SPDX-License-Identifier: Apache-2.0

// Package kindcluster creates the cluster of the end-to-end tests with kind as a library. It gives access to the nodes, their images and
// ports.
package kindcluster

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"
	"sigs.k8s.io/kind/pkg/apis/config/v1alpha4"
	"sigs.k8s.io/kind/pkg/cluster"
	"sigs.k8s.io/kind/pkg/cluster/nodes"

	"github.com/tripod-k8s/tripod/e2e/progress"
)

// readyTimeout is the time that a new cluster may take on a busy machine.
const readyTimeout = 5 * time.Minute

// AnyPort stands for any free port of the host, even if the configuration names one.
const AnyPort int32 = -1

// Options describes a cluster to create.
type Options struct {
	Name string
	// Image is the image of the node, and ConfigFile the configuration of kind. If empty, kind uses its defaults.
	Image, ConfigFile string
	// Workers is the number of nodes besides that of the control plane, unless the configuration has more.
	Workers int
	// Bare leaves the nodes without Kubernetes. The caller runs kubeadm there, and then calls Connect.
	Bare bool
	// Ports maps ports of the node to ports of 127.0.0.1. 0 stands for the port of the configuration, or any if it has none.
	Ports map[int32]int32
	// Dir is the directory for the kubeconfig.
	Dir string
}

// Cluster is a running kind cluster.
type Cluster struct {
	Name string
	// Kubeconfig is the path of its kubeconfig.
	Kubeconfig string
	// Made is set if Up created the cluster.
	Made bool
	// Client is a client of its API server.
	Client kubernetes.Interface

	config   *rest.Config
	provider *cluster.Provider
	node     nodes.Node
	all      []nodes.Node
}

func newProvider() (*cluster.Provider, error) {
	option, err := cluster.DetectNodeProvider()
	if err != nil {
		return nil, fmt.Errorf("kind needs Docker, Podman or nerdctl: %w", err)
	}
	return cluster.NewProvider(cluster.ProviderWithLogger(progress.Logger{}), option), nil
}

// Up returns the cluster with the name of the options, and creates it if it does not exist.
func Up(ctx context.Context, options Options) (*Cluster, error) {
	provider, err := newProvider()
	if err != nil {
		return nil, err
	}
	names, err := provider.List()
	if err != nil {
		return nil, fmt.Errorf("cannot list kind clusters: %w", err)
	}
	c := &Cluster{Name: options.Name, Made: !slices.Contains(names, options.Name), provider: provider}
	if !c.Made {
		progress.Printf("the cluster %s exists", c.Name)
		if err := c.open(ctx, options); err != nil {
			return c, err
		}
		if len(c.all) <= options.Workers {
			return c, fmt.Errorf("the kind cluster %s has %d nodes, and %d are needed; delete it, so that the tests create it anew", c.Name, len(c.all), options.Workers+1)
		}
		return c, nil
	}
	config, err := readConfig(options.ConfigFile)
	if err != nil {
		return nil, err
	}
	addWorkers(config, options.Workers)
	if err := mapPorts(config, options.Ports); err != nil {
		return nil, err
	}
	create := func() error {
		return progress.Step(fmt.Sprintf("kind creates the cluster %s with %d nodes", c.Name, len(config.Nodes)), func() error {
			return c.create(options, config)
		})
	}
	// A kubelet that starts beside other clusters fails now and then, which says nothing about Tripod. kind removes what it has begun.
	if err := create(); err != nil {
		progress.Printf("once more: %v", err)
		if err := create(); err != nil {
			return nil, err
		}
	}
	if err := c.open(ctx, options); err != nil || options.Bare || !needsPodNetwork(config) {
		return c, err
	}
	return c, progress.Step("connect the pods of the nodes", func() error { return c.connectPods(ctx, config) })
}

func (c *Cluster) create(options Options, config *v1alpha4.Cluster) error {
	create := []cluster.CreateOption{
		cluster.CreateWithV1Alpha4Config(config),
		cluster.CreateWithStopBeforeSettingUpKubernetes(options.Bare),
		cluster.CreateWithKubeconfigPath(filepath.Join(options.Dir, "kind.kubeconfig")),
	}
	if !needsPodNetwork(config) { // without a network, nodes need not be ready
		create = append(create, cluster.CreateWithWaitForReady(readyTimeout))
	}
	if options.Image != "" {
		create = append(create, cluster.CreateWithNodeImage(options.Image))
	}
	return withOutput(c.provider.Create(c.Name, create...))
}

// open finds the nodes, and creates the clients unless the nodes are bare.
func (c *Cluster) open(ctx context.Context, options Options) error {
	var err error
	if c.all, err = c.provider.ListInternalNodes(c.Name); err != nil || len(c.all) == 0 {
		return errors.Join(fmt.Errorf("the kind cluster %s has no nodes", c.Name), err)
	}
	for _, node := range c.all {
		if role, err := node.Role(); err == nil && role == "control-plane" {
			c.node = node
		}
	}
	if options.Bare {
		return nil
	}
	return c.Connect(ctx, options.Dir)
}

// Connect creates the clients of a running cluster, and writes its kubeconfig to dir.
func (c *Cluster) Connect(ctx context.Context, dir string) error {
	data, err := c.provider.KubeConfig(c.Name, false)
	if err != nil {
		return fmt.Errorf("cannot get the kubeconfig of the kind cluster: %w", err)
	}
	c.Kubeconfig = filepath.Join(dir, "kind.kubeconfig")
	if err := os.WriteFile(c.Kubeconfig, []byte(data), 0o600); err != nil {
		return fmt.Errorf("cannot write the kubeconfig of the kind cluster: %w", err)
	}
	if c.config, err = clientcmd.RESTConfigFromKubeConfig([]byte(data)); err != nil {
		return err
	}
	c.config.QPS = -1
	c.config.WarningHandler = rest.NoWarnings{}
	if c.Client, err = kubernetes.NewForConfig(c.config); err != nil {
		return err
	}
	_, err = c.Client.CoreV1().Namespaces().Get(ctx, "default", metav1.GetOptions{})
	return err
}

// Down removes a cluster.
func Down(name string) error {
	provider, err := newProvider()
	if err != nil {
		return err
	}
	return progress.Step("kind deletes the cluster "+name, func() error { return withOutput(provider.Delete(name, os.DevNull)) })
}

// Config returns a client configuration with the rights of the cluster's administrator.
func (c *Cluster) Config() *rest.Config { return rest.CopyConfig(c.config) }

// HostPort returns the port of 127.0.0.1 that kind maps to a port of the node.
func (c *Cluster) HostPort(ctx context.Context, port int32) (int32, error) {
	label := portLabel + strconv.Itoa(int(port))
	list, err := c.Client.CoreV1().Nodes().List(ctx, metav1.ListOptions{LabelSelector: label})
	if err != nil {
		return 0, err
	}
	if len(list.Items) == 0 {
		return 0, fmt.Errorf("the kind cluster %s does not map port %d; delete the cluster, so that the tests create it anew", c.Name, port)
	}
	mapped, err := strconv.ParseInt(list.Items[0].Labels[label], 10, 32)
	return int32(mapped), err
}

// NodeName returns the name of the control-plane node.
func (c *Cluster) NodeName() string { return c.node.String() }

// Nodes returns the names of all nodes.
func (c *Cluster) Nodes() []string {
	var names []string
	for _, node := range c.all {
		names = append(names, node.String())
	}
	return names
}

// Exec runs a program on the control-plane node and returns its output. stdin may be nil.
func (c *Cluster) Exec(ctx context.Context, stdin io.Reader, program string, args ...string) (string, error) {
	return c.ExecOn(ctx, c.NodeName(), stdin, program, args...)
}

// ExecOn runs a program on a node and returns its output. stdin may be nil.
func (c *Cluster) ExecOn(ctx context.Context, node string, stdin io.Reader, program string, args ...string) (string, error) {
	i := slices.IndexFunc(c.all, func(n nodes.Node) bool { return n.String() == node })
	if i < 0 {
		return "", fmt.Errorf("the kind cluster %s has no node %s", c.Name, node)
	}
	var stdout, stderr bytes.Buffer
	command := c.all[i].CommandContext(ctx, program, args...).SetStdout(&stdout).SetStderr(&stderr)
	if stdin != nil {
		command = command.SetStdin(stdin)
	}
	if err := command.Run(); err != nil {
		return stdout.String(), fmt.Errorf("%s on %s: %w: %s", program, node, err, strings.TrimSpace(stderr.String()))
	}
	return stdout.String(), nil
}
