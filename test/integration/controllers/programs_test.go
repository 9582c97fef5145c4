// Copyright The Tripod Authors.
// SPDX-License-Identifier: Apache-2.0

package controllers_test

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/tools/clientcmd"
	clientcmdapi "k8s.io/client-go/tools/clientcmd/api"

	"github.com/tripod-k8s/tripod/test/framework"
)

// nodeName is the name of the fake node.
const nodeName = "fake"

// startControllers starts the programs and returns when there is a node that pods can run on.
func startControllers(ctx context.Context, env *framework.Environment) error {
	manager, err := kubeconfig(env, "system:kube-controller-manager")
	if err != nil {
		return err
	}
	scheduler, err := kubeconfig(env, "system:kube-scheduler")
	if err != nil {
		return err
	}
	commands := []framework.Command{
		{Name: "kube-controller-manager", Args: []string{
			"--kubeconfig=" + manager,
			"--use-service-account-credentials=true",
			"--service-account-private-key-file=" + filepath.Join(tripod.PKI, "sa.key"),
			"--root-ca-file=" + tripod.CAFile(),
			"--cluster-signing-cert-file=" + tripod.CAFile(),
			"--cluster-signing-key-file=" + filepath.Join(tripod.PKI, "ca.key"),
			"--controllers=*",
			"--flex-volume-plugin-dir=" + filepath.Join(env.Dir, "flexvolume"),
			"--leader-elect=false",
			"--secure-port=0",
		}},
		{Name: "kube-scheduler", Args: []string{"--kubeconfig=" + scheduler, "--leader-elect=false", "--secure-port=0"}},
		{Name: "kwok", Args: []string{
			"--kubeconfig=" + tripod.Kubeconfig,
			"--config=" + filepath.Join("testdata", "stages.yaml"),
			"--manage-all-nodes=false",
			"--manage-nodes-with-annotation-selector=kwok.x-k8s.io/node=fake",
			"--node-lease-duration-seconds=40",
			"--node-ip=192.0.2.1",
		}},
	}
	var processes []*framework.Process
	for _, command := range commands {
		command.Path = env.Binary("test-assets/" + command.Name)
		process, err := env.Start(command)
		if err != nil {
			return err
		}
		processes = append(processes, process)
	}
	if err := createNode(ctx); err != nil {
		return err
	}
	return framework.Poll(ctx, "the node takes pods", func(ctx context.Context) error {
		return errors.Join(running(processes), nodeTakesPods(ctx))
	})
}

// kubeconfig writes one for a user and returns its path.
func kubeconfig(env *framework.Environment, user string) (string, error) {
	config, err := tripod.UserConfig(user)
	if err != nil {
		return "", err
	}
	kubeconfig := clientcmdapi.NewConfig()
	kubeconfig.Clusters["tripod"] = &clientcmdapi.Cluster{Server: config.Host, CertificateAuthority: config.CAFile}
	kubeconfig.AuthInfos[user] = &clientcmdapi.AuthInfo{ClientCertificate: config.CertFile, ClientKey: config.KeyFile}
	kubeconfig.Contexts["tripod"] = &clientcmdapi.Context{Cluster: "tripod", AuthInfo: user}
	kubeconfig.CurrentContext = "tripod"
	path := filepath.Join(env.Dir, user+".kubeconfig")
	if err := clientcmd.WriteToFile(*kubeconfig, path); err != nil {
		return "", fmt.Errorf("cannot write a kubeconfig for %s: %w", user, err)
	}
	return path, nil
}

func createNode(ctx context.Context) error {
	node := &corev1.Node{ObjectMeta: metav1.ObjectMeta{
		Name:        nodeName,
		Labels:      map[string]string{corev1.LabelHostname: nodeName},
		Annotations: map[string]string{"kwok.x-k8s.io/node": "fake"},
	}}
	_, err := client.CoreV1().Nodes().Create(ctx, node, metav1.CreateOptions{})
	return err
}

// nodeTakesPods returns nil when kwok has made the node ready and kube-controller-manager has seen it.
func nodeTakesPods(ctx context.Context) error {
	node, err := client.CoreV1().Nodes().Get(ctx, nodeName, metav1.GetOptions{})
	if err != nil {
		return err
	}
	if len(node.Spec.Taints) > 0 || len(node.Status.Allocatable) == 0 {
		return fmt.Errorf("node %s has taints %v and allocatable %v", node.Name, node.Spec.Taints, node.Status.Allocatable)
	}
	return nil
}

// running returns an error for a program that has ended on its own.
func running(processes []*framework.Process) error {
	for _, process := range processes {
		select {
		case <-process.Done():
			return fmt.Errorf("a program has ended with exit code %d, see %s", process.ExitCode(), process.Log)
		default:
		}
	}
	return nil
}
