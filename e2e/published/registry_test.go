// Copyright The Tripod Authors.
// SPDX-License-Identifier: Apache-2.0

package published

import (
	"bytes"
	"context"
	"fmt"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"time"

	"k8s.io/apimachinery/pkg/util/wait"

	"github.com/tripod-k8s/tripod/e2e/environment"
	"github.com/tripod-k8s/tripod/e2e/progress"
	"github.com/tripod-k8s/tripod/test/framework"
)

// lyingMirror is the address of the mirror that changes layers, within the node.
const lyingMirror = "127.0.0.1:5001"

// host is the name of the registry, as it is on this machine.
func host() string {
	name, _, _ := strings.Cut(registry, "/")
	return name
}

// startRegistry starts an empty registry in the node, has containerd pull there, and returns its name with a path for images.
func startRegistry(ctx context.Context) (string, error) {
	port, err := env.Cluster.HostPort(ctx, environment.OtherNodePort)
	if err != nil {
		return "", err
	}
	root, err := framework.RepositoryRoot()
	if err != nil {
		return "", err
	}
	crane := filepath.Join(root, "bin", "tools", "crane")
	if err := startInNode(ctx, "crane", crane, "registry", "serve", "--address", fmt.Sprintf(":%d", environment.OtherNodePort)); err != nil {
		return "", err
	}
	registry = fmt.Sprintf("127.0.0.1:%d/tripod-k8s", port)
	return registry, progress.Step("wait for the registry, and tell containerd where it is", func() error {
		if err := awaitRegistry(ctx); err != nil {
			return err
		}
		if err := haveCertsD(ctx); err != nil {
			return err
		}
		return mirrorAt(ctx, fmt.Sprintf("127.0.0.1:%d", environment.OtherNodePort))
	})
}

// startInNode copies a program into the node and runs it as a service of systemd.
func startInNode(ctx context.Context, name, program string, args ...string) error {
	content, err := os.ReadFile(program)
	if err != nil {
		return fmt.Errorf("make e2e-registry builds it: %w", err)
	}
	path := "/usr/local/bin/e2e-" + name
	// A cluster that E2E_KEEP left has both already, and the program cannot be written while it runs.
	script := fmt.Sprintf("systemctl stop e2e-%s 2>/dev/null || true; systemctl reset-failed e2e-%s 2>/dev/null || true; cat >%s && chmod +x %s", name, name, path, path)
	if _, err := env.Cluster.Exec(ctx, bytes.NewReader(content), "sh", "-c", script); err != nil {
		return err
	}
	_, err = env.Cluster.Exec(ctx, nil, "systemd-run", append([]string{"--unit=e2e-" + name, path}, args...)...)
	return err
}

func awaitRegistry(ctx context.Context) error {
	return wait.PollUntilContextTimeout(ctx, 200*time.Millisecond, time.Minute, true, func(ctx context.Context) (bool, error) {
		request, err := http.NewRequestWithContext(ctx, http.MethodGet, "http://"+host()+"/v2/", http.NoBody)
		if err != nil {
			return false, err
		}
		answer, err := http.DefaultClient.Do(request)
		if err != nil {
			return false, nil //nolint:nilerr // not yet
		}
		return answer.StatusCode == http.StatusOK, answer.Body.Close()
	})
}

// haveCertsD has containerd read the directory of registries, which kind's own nodes do already.
func haveCertsD(ctx context.Context) error {
	const script = `
config=/etc/containerd/config.toml
grep -q 'config_path *= *"/etc/containerd/certs.d"' $config && exit
printf '\n[plugins."io.containerd.grpc.v1.cri".registry]\n  config_path = "/etc/containerd/certs.d"\n' >>$config
systemctl restart containerd && ctr version >/dev/null`
	_, err := env.Cluster.Exec(ctx, nil, "sh", "-c", script)
	return err
}

// mirrorAt has containerd pull images of the registry from an address in the node. It reads the file at each pull.
func mirrorAt(ctx context.Context, address string) error {
	hosts := fmt.Sprintf("server = \"http://%s\"\n\n[host.\"http://%s\"]\n  capabilities = [\"pull\", \"resolve\"]\n", address, address)
	directory := "/etc/containerd/certs.d/" + host()
	_, err := env.Cluster.Exec(ctx, strings.NewReader(hosts), "sh", "-c", fmt.Sprintf("mkdir -p %s && cat >%s/hosts.toml", directory, directory))
	return err
}

// run runs a program of this checkout and returns what it printed.
func run(ctx context.Context, program string, args ...string) (string, error) {
	root, err := framework.RepositoryRoot()
	if err != nil {
		return "", err
	}
	if !strings.Contains(program, "/") {
		program = filepath.Join(root, "bin", "tools", program)
	}
	command := exec.CommandContext(ctx, program, args...)
	command.Dir = root
	// cosign and publish read no login of a person, and a cache of their own.
	command.Env = append(os.Environ(), "COSIGN_PASSWORD=of the test", "DOCKER_CONFIG="+env.Dir, "HOME="+env.Dir, "GOWORK=off",
		"GOCACHE="+goEnv(ctx, "GOCACHE"), "GOMODCACHE="+goEnv(ctx, "GOMODCACHE"))
	output, err := command.CombinedOutput()
	if err != nil {
		return string(output), fmt.Errorf("%s %s: %w: %s", filepath.Base(program), strings.Join(args, " "), err, output)
	}
	return string(output), nil
}

func goEnv(ctx context.Context, name string) string {
	value, err := exec.CommandContext(ctx, "go", "env", name).Output()
	if err != nil {
		return ""
	}
	return strings.TrimSpace(string(value))
}
