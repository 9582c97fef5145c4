// Copyright The Tripod Authors.
// SPDX-License-Identifier: Apache-2.0

package hosting

import (
	"context"
	"crypto/tls"
	"fmt"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/tools/clientcmd"
	"sigs.k8s.io/yaml"

	"github.com/tripod-k8s/tripod/test/framework"
)

// host is a pod, or what a tool runs in one, on this machine.
type host struct {
	t   *testing.T
	env *framework.Environment
	// root is the directory that has the files of the pod, by their paths there.
	root string
	pod  corev1.PodSpec
	// ports are those that replace the ports of the pod.
	ports map[string]int
}

// portFlag is a flag with the port of a server.
var portFlag = regexp.MustCompile(`^--(secure-port|agent-port|admin-port|health-port)=([1-9][0-9]*)$`)

// mounted is the beginning of a path in the pod.
var mounted = regexp.MustCompile(`(^|=|://)(/etc/kubernetes|/run/konnectivity|/uds|/data|/binaries)(/|$)`)

// newHost reads a pod from testdata.
func newHost(t *testing.T, fixture string) *host {
	t.Helper()
	env := framework.ForTest(t)
	h := &host{t: t, env: env, root: filepath.Join(env.Dir, "pod"), ports: map[string]int{}}
	data, err := os.ReadFile(filepath.Join("testdata", fixture))
	require.NoError(t, err)
	require.NoError(t, yaml.UnmarshalStrict(data, &h.pod))
	for _, container := range h.pod.Containers {
		for _, mount := range container.VolumeMounts {
			if mount.SubPath == "" { // otherwise it is a file
				require.NoError(t, os.MkdirAll(h.path(mount.MountPath), 0o700))
			}
		}
		for _, arg := range container.Args {
			if found := portFlag.FindStringSubmatch(arg); found != nil {
				h.ports[found[2]] = freePort(t)
			}
		}
	}
	return h
}

func freePort(t *testing.T) int {
	t.Helper()
	port, err := framework.FreePort()
	require.NoError(t, err)
	return port
}

// path returns where a file of the pod is.
func (h *host) path(inPod string) string { return filepath.Join(h.root, inPod) }

// port returns the port in the place of one of the pod.
func (h *host) port(inPod int) int { return h.ports[strconv.Itoa(inPod)] }

// here returns a flag of the pod with a path or a port that this machine has.
func (h *host) here(arg string) string {
	if found := portFlag.FindStringSubmatch(arg); found != nil {
		return fmt.Sprintf("--%s=%d", found[1], h.ports[found[2]])
	}
	return mounted.ReplaceAllString(arg, "${1}"+h.root+"${2}${3}")
}

func (h *host) container(name string) *corev1.Container {
	h.t.Helper()
	for i := range h.pod.Containers {
		if h.pod.Containers[i].Name == name {
			return &h.pod.Containers[i]
		}
	}
	require.Fail(h.t, "no such container", name)
	return nil
}

// start starts a container with a program of this machine. instead has other values of flags, by the names of these.
func (h *host) start(name, program string, instead map[string]string) *framework.Process {
	h.t.Helper()
	container := h.container(name)
	command := framework.Command{Name: name, Path: program}
	if container.WorkingDir != "" {
		command.Path, command.Args = "/usr/bin/env", []string{"--chdir=" + h.path(container.WorkingDir), program}
	}
	for _, arg := range container.Args {
		flag, _, _ := strings.Cut(strings.TrimPrefix(arg, "--"), "=")
		if value, other := instead[flag]; other {
			arg = "--" + flag + "=" + value
		}
		command.Args = append(command.Args, h.here(arg))
	}
	for _, variable := range container.Env {
		command.Env = append(command.Env, variable.Name+"="+variable.Value)
	}
	process, err := h.env.Start(command)
	require.NoError(h.t, err)
	return process
}

// serves waits until the probes of a container succeed, in the order in which a kubelet begins with them.
func (h *host) serves(name string, process *framework.Process) {
	h.t.Helper()
	container := h.container(name)
	// A kubelet verifies no certificate, and has no credentials.
	client := &http.Client{Transport: &http.Transport{TLSClientConfig: &tls.Config{InsecureSkipVerify: true}}}
	defer client.CloseIdleConnections()
	for _, probe := range []*corev1.Probe{container.StartupProbe, container.LivenessProbe, container.ReadinessProbe} {
		if probe == nil {
			continue
		}
		get := probe.HTTPGet
		url := fmt.Sprintf("%s://127.0.0.1:%d%s", strings.ToLower(string(get.Scheme)), h.port(get.Port.IntValue()), get.Path)
		framework.Eventually(h.t, name+" answers "+get.Path, func(ctx context.Context) error {
			select {
			case <-process.Done():
				require.Fail(h.t, name+" has ended", "its log is in %s", process.Log)
			default:
			}
			return answers(ctx, client, url)
		})
	}
}

// answers returns an error unless the answer is one that a kubelet takes for success.
func answers(ctx context.Context, client *http.Client, url string) error {
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, url, nil)
	if err != nil {
		return err
	}
	response, err := client.Do(request)
	if err != nil {
		return err
	}
	defer response.Body.Close()
	body, err := io.ReadAll(response.Body)
	if err == nil && response.StatusCode != http.StatusOK {
		err = fmt.Errorf("%s: %s", response.Status, body)
	}
	return err
}

// client returns a client with a kubeconfig of the pod.
func (h *host) client(kubeconfig string) kubernetes.Interface {
	h.t.Helper()
	config, err := clientcmd.BuildConfigFromFlags("", h.path(kubeconfig))
	require.NoError(h.t, err)
	config.QPS = -1
	client, err := kubernetes.NewForConfig(config)
	require.NoError(h.t, err)
	return client
}
