// Copyright The Tripod Authors.
// SPDX-License-Identifier: Apache-2.0

package framework

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"

	"github.com/tripod-k8s/tripod/local/controllers"
)

// ControllersOptions configures what to start beside a cluster.
type ControllersOptions struct {
	// Nodes are the names of the nodes to create.
	Nodes []string
	// Unlimited lets kube-controller-manager and kube-scheduler send as many requests as they like.
	Unlimited bool
	// Stages are files with stages for kwok. They come in addition to the stages by which a pod runs at once, and disappears at once when
	// it is deleted.
	Stages []string
	// Args are additional flags of kube-controller-manager and kube-scheduler.
	Args []string
}

// StartControllers starts the unmodified controllers of Kubernetes, with the rights of the bootstrap RBAC objects, and kwok in place of
// kubelets. It returns when pods can run on the nodes.
func (e *Environment) StartControllers(ctx context.Context, cluster *Cluster, options ControllersOptions) error {
	dir, err := e.newDir("controllers")
	if err != nil {
		return err
	}
	commands, err := cluster.controllerCommands(dir, options)
	if err != nil {
		return err
	}
	var processes []*Process
	for _, command := range commands {
		command.Dir, command.Path = dir, e.Binary("test-assets/"+command.Name)
		process, err := e.Start(command)
		if err != nil {
			return err
		}
		processes = append(processes, process)
	}
	client, err := kubernetes.NewForConfig(cluster.Admin())
	if err != nil {
		return err
	}
	for _, name := range options.Nodes {
		if err := controllers.CreateNode(ctx, client, name); err != nil {
			return err
		}
	}
	return Poll(ctx, "the nodes take pods", func(ctx context.Context) error {
		errs := []error{running(processes)}
		for _, name := range options.Nodes {
			errs = append(errs, nodeTakesPods(ctx, client, name))
		}
		return errors.Join(errs...)
	})
}

func (c *Cluster) controllerCommands(dir string, options ControllersOptions) ([]Command, error) {
	manager, err := c.UserKubeconfig(dir, "system:kube-controller-manager")
	if err != nil {
		return nil, err
	}
	scheduler, err := c.UserKubeconfig(dir, "system:kube-scheduler")
	if err != nil {
		return nil, err
	}
	ourStages := filepath.Join(dir, "stages.yaml")
	if err := os.WriteFile(ourStages, controllers.Stages, 0o600); err != nil {
		return nil, fmt.Errorf("cannot write the stages for kwok: %w", err)
	}
	kwok := controllers.KwokArgs(c.Kubeconfig, 40*time.Second, append([]string{ourStages}, options.Stages...)...)
	keys := controllers.Keys{CA: c.CAFile(), CAKey: filepath.Join(c.PKI, "ca.key"), ServiceAccounts: filepath.Join(c.PKI, "sa.key")}
	both := append([]string{"--secure-port=0"}, options.Args...)
	if options.Unlimited {
		both = append(both, "--kube-api-qps=-1", "--kube-api-burst=1000")
	}
	return []Command{
		{Name: "kube-controller-manager", Args: append(controllers.ManagerArgs(manager, dir, keys), both...)},
		{Name: "kube-scheduler", Args: append(controllers.SchedulerArgs(scheduler), both...)},
		{Name: "kwok", Args: kwok},
	}, nil
}

// TakesPods reports whether kwok has made a node ready and kube-controller-manager has noticed.
func TakesPods(node *corev1.Node) bool {
	return len(node.Spec.Taints) == 0 && len(node.Status.Allocatable) > 0
}

// nodeTakesPods returns nil once kwok has made the node ready and kube-controller-manager has noticed.
func nodeTakesPods(ctx context.Context, client kubernetes.Interface, name string) error {
	node, err := client.CoreV1().Nodes().Get(ctx, name, metav1.GetOptions{})
	if err != nil {
		return err
	}
	if !TakesPods(node) {
		return fmt.Errorf("node %s has taints %v and allocatable %v", node.Name, node.Spec.Taints, node.Status.Allocatable)
	}
	return nil
}

// running returns an error if a program has ended.
func running(processes []*Process) error {
	for _, process := range processes {
		select {
		case <-process.Done():
			return process.ended()
		default:
		}
	}
	return nil
}
