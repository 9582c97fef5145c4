// Copyright The Tripod Authors.
// SPDX-License-Identifier: Apache-2.0

package kubeadm

import (
	"context"
	"fmt"
	"io"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/tripod-k8s/tripod/e2e/controlplane"
)

const (
	// patchDir is where docs/kubeadm.md keeps the patches that kubeadm is given.
	patchDir = "/etc/kubernetes/patches"
	// adminConfig is the kubeconfig that kubeadm writes for the administrator.
	adminConfig = "/etc/kubernetes/admin.conf"
	networkDir  = "/etc/cni/net.d"
	// readyTimeout is how long anything may take to become ready on a busy machine.
	readyTimeout = 3 * time.Minute
	// kubeadmTimeout is above the timeouts of kubeadm itself.
	kubeadmTimeout = 10 * time.Minute
)

// ignored are checks about the machine that containers as nodes fail: the kernel's configuration, cgroups, swap, memory and processors of the host.
// kind leaves out all checks.
const ignored = "--ignore-preflight-errors=SystemVerification,Swap,Mem,NumCPU,FileContent--proc-sys-net-bridge-bridge-nf-call-iptables"

// machine is a node as a user sees it who is logged in to run kubeadm.
type machine string

// exec runs a program on the machine and returns its output.
func (m machine) exec(ctx context.Context, stdin io.Reader, program string, args ...string) (string, error) {
	return env.Cluster.ExecOn(ctx, string(m), stdin, program, args...)
}

// prepare installs kubeadm, and removes what makes a node of kind more than a machine. used is whether kubeadm has run there.
func (m machine) prepare(ctx context.Context, used bool) error {
	program, err := os.Open(assets + "kubeadm")
	if err != nil {
		return fmt.Errorf("cannot install kubeadm on the node (make e2e-kubeadm builds it): %w", err)
	}
	defer program.Close()
	if _, err := m.exec(ctx, program, "install", "-m", "755", "/dev/stdin", "/usr/local/bin/kubeadm"); err != nil {
		return err
	}
	if used {
		if _, err := m.exec(ctx, nil, "kubeadm", "reset", "--force"); err != nil {
			return err
		}
	}
	// Some images of kind have a pod network of a single node. The container runtime watches the directory itself.
	_, err = m.exec(ctx, nil, "find", networkDir, "-type", "f", "-delete")
	return err
}

// run runs a program on the machine and returns its output. A program that fails ends the test.
func (m machine) run(t *testing.T, program string, args ...string) string {
	t.Helper()
	output, err := m.try(t, program, args...)
	require.NoError(t, err, "%s %v", program, args)
	return output
}

func (m machine) try(t *testing.T, program string, args ...string) (string, error) {
	t.Helper()
	began := time.Now()
	ctx, cancel := context.WithTimeout(t.Context(), kubeadmTimeout)
	defer cancel()
	output, err := m.exec(ctx, nil, program, args...)
	if program == "kubeadm" {
		t.Logf("%s: kubeadm %s: %s\n%s", string(m), strings.Join(args, " "), time.Since(began).Round(time.Second), output)
	}
	return output, err
}

// upgrade runs kubeadm upgrade, and once more if a request of it took longer than the 10 seconds that it waits. Its documentation says to do so: the command is
// idempotent.
func (m machine) upgrade(t *testing.T, args ...string) {
	t.Helper()
	args = append(append([]string{"upgrade"}, args...), ignored)
	if _, err := m.try(t, "kubeadm", args...); err == nil {
		return
	} else if !strings.Contains(err.Error(), "context deadline exceeded") {
		require.NoError(t, err)
	}
	m.run(t, "kubeadm", args...)
}

// kubectl runs kubectl as the administrator.
func (m machine) kubectl(t *testing.T, args ...string) string {
	t.Helper()
	return m.run(t, "kubectl", append([]string{"--kubeconfig=" + adminConfig}, args...)...)
}

// write writes a file.
func (m machine) write(t *testing.T, file, content string) {
	t.Helper()
	_, err := m.exec(t.Context(), strings.NewReader(content), "install", "-D", "-m", "644", "/dev/stdin", file)
	require.NoError(t, err)
}

// patch has kubeadm use an image for the API server from now on. It is what docs/kubeadm.md says.
func (m machine) patch(t *testing.T, image string) {
	t.Helper()
	m.write(t, patchDir+"/kube-apiserver+strategic.yaml", fmt.Sprintf("spec:\n  containers:\n  - name: kube-apiserver\n    image: %s\n", image))
}

// waitForAPIServer returns when the API server of the machine runs an image and is ready.
func (m machine) waitForAPIServer(t *testing.T, image string) {
	t.Helper()
	eventually(t, string(m)+" runs "+image, func(ctx context.Context) error {
		pod, err := m.apiServer(ctx)
		if err != nil {
			return err
		}
		if got := pod.Spec.Containers[0].Image; got != image {
			return fmt.Errorf("the mirror pod has the image %s", got)
		}
		return controlplane.PodReady(pod)
	})
}

// apiServer returns the mirror pod of the API server.
func (m machine) apiServer(ctx context.Context) (*corev1.Pod, error) {
	return env.Cluster.Client.CoreV1().Pods(metav1.NamespaceSystem).Get(ctx, controlplane.APIServer+"-"+string(m), metav1.GetOptions{})
}

// waitForNode returns when the node is ready.
func (m machine) waitForNode(t *testing.T) {
	t.Helper()
	eventually(t, "node "+string(m)+" is ready", func(ctx context.Context) error {
		node, err := env.Cluster.Client.CoreV1().Nodes().Get(ctx, string(m), metav1.GetOptions{})
		if err != nil {
			return err
		}
		for _, condition := range node.Status.Conditions {
			if condition.Type == corev1.NodeReady && condition.Status == corev1.ConditionTrue {
				return nil
			}
		}
		return fmt.Errorf("its conditions are %v", node.Status.Conditions)
	})
}

func eventually(t *testing.T, what string, try func(context.Context) error) {
	t.Helper()
	require.NoError(t, controlplane.Eventually(t.Context(), readyTimeout, what, try))
}
