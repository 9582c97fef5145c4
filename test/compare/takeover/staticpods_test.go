// Copyright The Tripod Authors.
// SPDX-License-Identifier: Apache-2.0

package takeover

import (
	"context"
	"fmt"
	"io"
	"io/fs"
	"net/http"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/yaml"

	"github.com/tripod-k8s/tripod/test/framework"
)

// TestStaticPodsRunWithWhatTheyMount runs the static pods without a kubelet: each program in a root directory with copies of its mounts, as its
// user, without capabilities, and with a certificate of etcd of its own, whose user reaches only the keys of the service.
func TestStaticPodsRunWithWhatTheyMount(t *testing.T) {
	if os.Geteuid() != 0 {
		t.Skip("only root changes the root directory and the user of a process")
	}
	environment := framework.ForTest(t)
	server, err := environment.StartStock(t.Context(), framework.StockOptions{})
	require.NoError(t, err)
	require.NoError(t, server.Process.Stop())
	public, err := url.Parse(server.URL)
	require.NoError(t, err)
	port, err := strconv.Atoi(public.Port())
	require.NoError(t, err)

	etcd := withCertificates(t, environment, server)
	made, certDir := filepath.Join(server.DataDir, "manifests"), filepath.Join(server.DataDir, "tripod")
	require.NoError(t, os.Mkdir(made, 0o700))
	flags := append(framework.StockFlags(server.PKI, etcd.url, "127.0.0.1", port), "--audit-log-path=/logs/audit.log", "--audit-policy-file="+policy(t))
	flags = append(flags, etcd.flags...)
	stock := filepath.Join(server.DataDir, "stock.yaml")
	require.NoError(t, os.WriteFile(stock, fmt.Appendf(nil, `kind: Pod
spec:
  containers:
  - {name: a, command: [kube-apiserver, "%s"], volumeMounts: [{name: logs, mountPath: /logs}]}
  volumes: [{name: logs, hostPath: {path: %s}}]
`, strings.Join(flags, `", "`), filepath.Join(server.DataDir, "logs")), 0o600))
	output, err := exec.CommandContext(t.Context(), environment.Binary("tripod"), "static-pods", "--manifest", stock, "--output", made,
		"--cert-dir", certDir).CombinedOutput()
	require.NoError(t, err, "%s", output)

	ports := otherPorts(t)
	for _, name := range []string{"tripod-core", "tripod-extensions", "kube-apiserver"} {
		content, err := os.ReadFile(filepath.Join(made, name+".yaml"))
		require.NoError(t, err)
		var pod corev1.Pod
		require.NoError(t, yaml.Unmarshal([]byte(ports.Replace(string(content))), &pod))
		process := runPod(t, environment, &pod)
		user := *pod.Spec.SecurityContext.RunAsUser
		assert.NotZero(t, user)
		defer func() {
			status, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", process.PID()))
			require.NoError(t, err)
			assert.Contains(t, string(status), fmt.Sprintf("Uid:\t%[1]d\t%[1]d\t%[1]d\t%[1]d", user))
			assert.Contains(t, string(status), "CapEff:\t0000000000000000")
		}()
	}
	client, err := rest.HTTPClientFor(server.Admin())
	require.NoError(t, err)
	framework.Eventually(t, "the static pods are ready", func(ctx context.Context) error {
		request, err := http.NewRequestWithContext(ctx, http.MethodGet, server.URL+"/readyz", nil)
		if err != nil {
			return err
		}
		response, err := client.Do(request)
		if err != nil {
			return err
		}
		defer response.Body.Close()
		if body, err := io.ReadAll(response.Body); err != nil || response.StatusCode != http.StatusOK {
			return fmt.Errorf("%s: %s: %w", response.Status, body, err)
		}
		return nil
	})
	check := func() {
		output, err := exec.CommandContext(t.Context(), environment.Binary("tripod"), "check", "--kubeconfig", server.Kubeconfig).CombinedOutput()
		require.NoError(t, err, "%s", output)
	}
	check()
	output, err = exec.CommandContext(t.Context(), environment.Binary("tripod"), "etcd", "access", "--endpoints", etcd.url,
		"--cacert", etcd.store.CertFile("ca"), "--cert", filepath.Join(certDir, "etcd-root.crt"), "--key", filepath.Join(certDir, "etcd-root.key"),
		"--admin", "kube-etcd-healthcheck-client").CombinedOutput()
	require.NoError(t, err, "%s", output)
	check()
	etcd.onlyOwnKeys(t, certDir)
}

// policy makes an audit policy.
func policy(t *testing.T) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "policy.yaml")
	require.NoError(t, os.WriteFile(path, []byte("apiVersion: audit.k8s.io/v1\nkind: Policy\nrules: [{level: Metadata}]\n"), 0o600))
	return path
}

// otherPorts puts free ports in the place of those that static pods have, because other tests may run them too.
func otherPorts(t *testing.T) *strings.Replacer {
	t.Helper()
	var pairs []string
	for port := 7440; port <= 7445; port++ {
		free, err := framework.FreePort()
		require.NoError(t, err)
		for _, before := range []string{":", "--secure-port="} {
			pairs = append(pairs, before+strconv.Itoa(port), before+strconv.Itoa(free))
		}
	}
	return strings.NewReplacer(pairs...)
}

// runPod starts the program of a static pod.
func runPod(t *testing.T, environment *framework.Environment, pod *corev1.Pod) *framework.Process {
	t.Helper()
	root := t.TempDir()
	container := &pod.Spec.Containers[0]
	for dir := root; len(dir) > len(os.TempDir()); dir = filepath.Dir(dir) {
		require.NoError(t, os.Chmod(dir, 0o755))
	}
	program, err := os.ReadFile(environment.Binary(container.Command[0]))
	require.NoError(t, err)
	require.NoError(t, os.WriteFile(filepath.Join(root, container.Command[0]), program, 0o755))
	for i, mount := range container.VolumeMounts {
		copyWithOwners(t, pod.Spec.Volumes[i].HostPath.Path, filepath.Join(root, mount.MountPath))
	}
	user := fmt.Sprintf("--userspec=%d:%d", *pod.Spec.SecurityContext.RunAsUser, *pod.Spec.SecurityContext.RunAsGroup)
	args := append([]string{user, "--groups=", root, "/" + container.Command[0]}, container.Command[1:]...)
	process, err := environment.Start(framework.Command{Name: pod.Name, Path: "chroot", Args: args, Dir: t.TempDir()})
	require.NoError(t, err)
	return process
}

func copyWithOwners(t *testing.T, from, to string) {
	t.Helper()
	require.NoError(t, os.MkdirAll(to, 0o755))
	require.NoError(t, filepath.WalkDir(from, func(path string, entry fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		info, err := entry.Info()
		if err != nil {
			return err
		}
		copied := filepath.Join(to, strings.TrimPrefix(path, from))
		if entry.IsDir() {
			err = os.MkdirAll(copied, 0o700)
		} else if content, failed := os.ReadFile(path); failed == nil {
			err = os.WriteFile(copied, content, 0o600)
		} else {
			err = failed
		}
		owner := info.Sys().(*syscall.Stat_t) // Linux
		require.NoError(t, err)
		require.NoError(t, os.Chown(copied, int(owner.Uid), int(owner.Gid)))
		return os.Chmod(copied, info.Mode().Perm())
	}))
}
