// Copyright The Tripod Authors.
// SPDX-License-Identifier: Apache-2.0

// Package release installs the chart into a cluster with helm, as users do. It gives access to the API, the pods and the metrics of the
// release.
package release

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"
	"sigs.k8s.io/yaml"

	"github.com/tripod-k8s/tripod/e2e/kindcluster"
	"github.com/tripod-k8s/tripod/e2e/progress"
)

// timeout is how long helm waits. It is generous, because the tests assert nothing about speed.
const timeout = 5 * time.Minute

// Values has values of the chart, as in values.yaml.
type Values map[string]any

// Tools has the paths of the programs that a user has.
type Tools struct{ Helm, Tripod string }

// Release is a release of the chart.
type Release struct {
	// Name is the name of the release and begins the names of its objects. Namespace is their namespace.
	Name, Namespace string
	// Host is the cluster of the release.
	Host *kindcluster.Cluster
	// Chart is the path of the chart.
	Chart string
	// Kubeconfig is the path of a kubeconfig with all rights on Tripod. [Release.Connect] writes it.
	Kubeconfig string

	tools  Tools
	dir    string
	config *rest.Config
}

// New returns a release, whether it is installed or not. It keeps its files in dir.
func New(host *kindcluster.Cluster, tools Tools, chart, name, namespace, dir string) *Release {
	return &Release{
		Name: name, Namespace: namespace, Host: host, Chart: chart,
		Kubeconfig: filepath.Join(dir, name+".kubeconfig"), tools: tools, dir: dir,
	}
}

// Up installs or upgrades the release, prints progress, and returns when Tripod answers from outside the cluster.
func (r *Release) Up(ctx context.Context, values ...Values) error {
	if err := progress.Step("helm installs "+r.Name, func() error { return r.Install(ctx, values...) }); err != nil {
		return err
	}
	if _, err := r.Connect(ctx); err != nil {
		return err
	}
	return r.AwaitReachable(ctx)
}

// Install installs or upgrades the release and returns when everything is ready. Values that are not given have the chart's defaults.
func (r *Release) Install(ctx context.Context, values ...Values) error {
	args := []string{"upgrade", "--install", r.Name, r.Chart, "--create-namespace", "--wait", "--wait-for-jobs", "--timeout=" + timeout.String()}
	return r.withValues(ctx, args, values)
}

// Upgrade changes values of an installed release and returns when everything is ready again.
func (r *Release) Upgrade(ctx context.Context, values ...Values) error {
	return r.withValues(ctx, []string{"upgrade", r.Name, r.Chart, "--reset-then-reuse-values", "--wait", "--wait-for-jobs", "--timeout=" + timeout.String()}, values)
}

func (r *Release) withValues(ctx context.Context, args []string, values []Values) error {
	for i, v := range values {
		data, err := yaml.Marshal(v)
		if err != nil {
			return err
		}
		file := filepath.Join(r.dir, fmt.Sprintf("%s-values-%d.yaml", r.Name, i))
		if err := os.WriteFile(file, data, 0o600); err != nil {
			return fmt.Errorf("cannot write values of the chart: %w", err)
		}
		args = append(args, "--values", file)
	}
	_, err := r.Helm(ctx, args...)
	return err
}

// Test runs the tests of the chart and returns their output.
func (r *Release) Test(ctx context.Context) (string, error) {
	return r.Helm(ctx, "test", r.Name, "--logs", "--timeout="+timeout.String())
}

// Uninstall removes the release and returns when the removed objects are gone.
func (r *Release) Uninstall(ctx context.Context) error {
	_, err := r.Helm(ctx, "uninstall", r.Name, "--wait", "--timeout="+timeout.String())
	return err
}

// Helm runs helm in the namespace of the release.
func (r *Release) Helm(ctx context.Context, args ...string) (string, error) {
	return run(ctx, "", r.tools.Helm, append(args, "--kubeconfig", r.Host.Kubeconfig, "--namespace", r.Namespace)...)
}

// Tripod runs a command of tripod against Tripod.
func (r *Release) Tripod(ctx context.Context, args ...string) (string, error) {
	return run(ctx, "", r.tools.Tripod, append(args, "--kubeconfig", r.Kubeconfig)...)
}

// HostTripod runs a command of tripod that works on the release, in the cluster that it runs in.
func (r *Release) HostTripod(ctx context.Context, args ...string) (string, error) {
	return run(ctx, "", r.tools.Tripod, append(args, "--kubeconfig", r.Host.Kubeconfig, "--namespace", r.Namespace)...)
}

// Kubectl runs Tripod's kubectl against Tripod.
func (r *Release) Kubectl(ctx context.Context, stdin string, args ...string) (string, error) {
	return run(ctx, stdin, r.tools.Tripod, append([]string{"kubectl", "--kubeconfig", r.Kubeconfig, "--cache-dir", filepath.Join(r.dir, "cache")}, args...)...)
}

// Connected runs a script of sh by `tripod connect`, and returns its output. The script finds this program in $TRIPOD, the kubeconfig of the
// cluster in which Tripod runs in $HOST, and the namespace of the release in $NAMESPACE.
func (r *Release) Connected(ctx context.Context, script string) (string, error) {
	return run(ctx, "", "env", "TRIPOD="+r.tools.Tripod, "HOST="+r.Host.Kubeconfig, "NAMESPACE="+r.Namespace,
		r.tools.Tripod, "connect", r.Name, "--kubeconfig", r.Host.Kubeconfig, "--namespace", r.Namespace, "--", "sh", "-ec", script)
}

// HostKubectl runs Tripod's kubectl against the cluster in which Tripod runs.
func (r *Release) HostKubectl(ctx context.Context, stdin string, args ...string) (string, error) {
	return run(ctx, stdin, r.tools.Tripod, append([]string{"kubectl", "--kubeconfig", r.Host.Kubeconfig, "--namespace", r.Namespace}, args...)...)
}

// run runs a program and returns its output. An error includes the output.
func run(ctx context.Context, stdin, program string, args ...string) (string, error) {
	cmd := exec.CommandContext(ctx, program, args...)
	var stdout, stderr bytes.Buffer
	cmd.Stdin, cmd.Stdout, cmd.Stderr = strings.NewReader(stdin), &stdout, &stderr
	if err := cmd.Run(); err != nil {
		return stdout.String(), fmt.Errorf("%s %s: %w\n%s%s", filepath.Base(program), args[0], err, stdout.String(), stderr.String())
	}
	return stdout.String(), nil
}

// Connect writes the kubeconfig in the Secret of the release, unchanged, to a file, and returns it as a client configuration.
func (r *Release) Connect(ctx context.Context) (*rest.Config, error) {
	secret, err := r.Host.Client.CoreV1().Secrets(r.Namespace).Get(ctx, r.Name+"-kubeconfig", metav1.GetOptions{})
	if err != nil {
		return nil, fmt.Errorf("cannot get the kubeconfig of Tripod: %w", err)
	}
	data := secret.Data["kubeconfig"]
	if len(data) == 0 {
		return nil, errors.New("the Secret with the kubeconfig of Tripod has no key kubeconfig")
	}
	if err := os.WriteFile(r.Kubeconfig, data, 0o600); err != nil {
		return nil, fmt.Errorf("cannot write the kubeconfig of Tripod: %w", err)
	}
	if r.config, err = clientcmd.RESTConfigFromKubeConfig(data); err != nil {
		return nil, fmt.Errorf("cannot read the kubeconfig of Tripod: %w", err)
	}
	r.config.QPS = -1
	return r.Admin(), nil
}

// Admin returns the client configuration that [Release.Connect] read last.
func (r *Release) Admin() *rest.Config { return rest.CopyConfig(r.config) }
